"""The command line: `python -m enginery_cluster up|down|images|env|status|kwok|devices|device-plugin`.

Called by the Makefile and by people; each command is one function of another module.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from enginery_cluster.places import cluster_names
from enginery_cluster.steps import say

Command = Callable[[argparse.Namespace], None]


def _up(arguments: argparse.Namespace) -> None:
    provider = os.environ.get("CLUSTER", "namespaces")
    if provider == "kind":
        from enginery_cluster import kind

        kind.up(arguments.name)
    elif provider == "existing":
        from enginery_cluster import existing

        existing.up(arguments.name)
    elif provider == "namespaces":
        from enginery_cluster import up

        up.up(arguments.name)
    else:
        sys.exit(f"CLUSTER={provider}: expected namespaces (the default), kind or existing")


def _down(arguments: argparse.Namespace) -> None:
    from enginery_cluster.down import down
    from enginery_cluster.leftovers import leftovers

    for name in cluster_names() if arguments.all else [arguments.name]:
        if not arguments.verify:
            down(name)
        elif found := leftovers(name):
            sys.exit("\n".join(found))


def _images(arguments: argparse.Namespace) -> None:
    from enginery_cluster import images

    images.images(arguments.name)


def _device_plugin(arguments: argparse.Namespace) -> None:
    from enginery_cluster import device_plugin

    device_plugin.run(arguments.file)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="enginery_cluster", description="The local Kubernetes cluster.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Command, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(run=run)
        added.add_argument("--name", default="demo", help="which cluster (default: demo)")
        return added

    command("up", _up, "start the cluster unless it runs")
    removal = command("down", _down, "end the cluster and remove everything of it")
    removal.add_argument("--all", action="store_true", help="every cluster of this checkout")
    removal.add_argument("--verify", action="store_true", help="remove nothing, fail if anything is left")
    command("images", _images, "build the three programs' images and load them into the cluster")
    plugin = command("device-plugin", _device_plugin, "the fake device plugin (runs on the node)")
    plugin.add_argument("file", type=Path, help="what it advertises: devices.json of the state folder")
    return parser


def main() -> None:
    """Run one command; expected failures are one line."""
    arguments = _parser().parse_args()
    try:
        arguments.run(arguments)
    except RuntimeError as error:
        say(f"error: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
