from pathlib import Path

from enginery_runtime.oip import generate


def test_committed_messages_are_those_of_the_proto_files(tmp_path: Path) -> None:
    generate.generate(tmp_path)
    for fresh in tmp_path.iterdir():
        assert fresh.read_text() == (generate.HERE / fresh.name).read_text(), f"{fresh.name}: run the generator"
