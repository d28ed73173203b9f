"""Installs the Python side of an image in two layers. Run by Dockerfiles, whose build argument EXTRAS names the extras:

    python3 dependencies.py libraries     what the extras need, which changes seldom
    python3 dependencies.py program       the distribution itself, which rebuilds in seconds

Without an index (PIP_NO_INDEX) the build backend comes from the same wheels.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path


def main(layer: str) -> None:
    """Install one layer under the constraints of the lock."""
    extras = os.environ["EXTRAS"].split(",")
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    libraries = [wish for extra in extras for wish in project["optional-dependencies"][extra]]
    wanted = [*project["dependencies"], *libraries] if layer == "libraries" else [f".[{','.join(extras)}]"]
    pip = [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--constraint", "requirements.lock"]
    subprocess.run([*pip, *wanted], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
