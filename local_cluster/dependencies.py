"""Installs what one extra of pyproject.toml needs, without the distribution itself: a layer of the images that only
changes with the dependencies. Run by the Dockerfiles: `python3 dependencies.py operator`.

Without an index (PIP_NO_INDEX) the build backend comes from the same wheels.
"""

import subprocess
import sys
import tomllib
from pathlib import Path


def main(extra: str) -> None:
    """Install the extra's requirements under the constraints of the lock."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"][extra]]
    pip = [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--constraint", "requirements.lock"]
    subprocess.run([*pip, *wanted], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
