"""The command line: `python -m enginery_cluster COMMAND`. Called by the Makefile and by people.

Each command is one function of another module, imported when it is called: the device plugin on the node needs no
image builder, and `env` is called by every shell.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from enginery_cluster.gpu_labels import MIG_COUNT, MIG_RESOURCE
from enginery_cluster.places import Places, cluster_names
from enginery_cluster.steps import say

Command = Callable[[argparse.Namespace], None]


def _up(arguments: argparse.Namespace) -> None:
    provider = os.environ.get("CLUSTER") or "namespaces"
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

    images.images(arguments.name, arguments.converters)


def _env(arguments: argparse.Namespace) -> None:
    from enginery_cluster import report

    print(report.environment(arguments.name))


def _status(_: argparse.Namespace) -> None:
    from enginery_cluster import report

    print(report.status())


def _shell(arguments: argparse.Namespace) -> None:
    from enginery_cluster import node_process

    command = arguments.command or [os.environ.get("SHELL", "/bin/sh")]
    sys.exit(subprocess.run(node_process.inside(Places(arguments.name), *command), check=False).returncode)


def _kwok(arguments: argparse.Namespace) -> None:
    from enginery_cluster import kwok

    kwok.kwok(arguments.name, arguments.nodes, arguments.stages)


def _network_policy(arguments: argparse.Namespace) -> None:
    from enginery_cluster import network_policy

    network_policy.network_policy(arguments.name)


def _component(arguments: argparse.Namespace) -> None:
    from enginery_cluster import node_spec

    change = node_spec.stop_component if arguments.action == "stop" else node_spec.start_component
    change(Places(arguments.name), arguments.component)


def _devices(arguments: argparse.Namespace) -> None:
    from enginery_cluster import device_plugin

    path = Places(arguments.name).devices
    wanted = device_plugin.read_devices(path)
    wanted[arguments.resource] = {"count": arguments.count, "unhealthy": arguments.unhealthy}
    device_plugin.write_devices(path, {name: devices for name, devices in wanted.items() if devices["count"]})


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
    building = command("images", _images, "build the programs' images and load them into the cluster")
    frameworks = ["tensorflow", "pytorch"]
    building.add_argument("--converters", nargs="*", choices=frameworks, default=(), help="framework images to add")
    command("env", _env, "print shell variables of the cluster, for eval")
    command("status", _status, "list this checkout's clusters")
    shell = command("shell", _shell, "run a program in the node's namespaces (default: a shell)")
    shell.add_argument("command", nargs="*")
    fleet = command("kwok", _kwok, "add simulated GPU nodes")
    fleet.add_argument("--nodes", type=int, default=100, help="how many (default: 100)")
    fleet.add_argument("--stages", type=Path, help="a file of kwok Stages in place of kwok's own")
    command("network-policy", _network_policy, "enforce NetworkPolicy on the running cluster")
    component = command("component", _component, "take a component of the node out of service, or bring it back")
    component.add_argument("action", choices=["stop", "start"])
    component.add_argument("component", help="for example kube-apiserver, versitygw, kubelet")
    devices = command("devices", _devices, "change what the fake device plugin advertises")
    devices.add_argument("--resource", default=MIG_RESOURCE)
    devices.add_argument("--count", type=int, default=MIG_COUNT, help="0 withdraws the resource")
    devices.add_argument("--unhealthy", type=int, default=0, help="how many of them are broken")
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
