"""A device plugin without devices: tells a real kubelet that GPU slices are there, so that scheduling, quota and
allocation are real while nothing computes on them.

Runs on the node (components.py). What it advertises is a file, {resource: {"count": 4, "unhealthy": 0}}, which tests
rewrite while it runs: a slice turns unhealthy, a profile appears or vanishes.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from enginery_cluster.device_plugin_messages import MESSAGES, PACKAGE

FOLDER = Path("/var/lib/kubelet/device-plugins")
"""Where the kubelet looks for plugins, whatever its root folder."""

POLL_SECONDS = 0.5
"""How soon a change of the file, or a restarted kubelet, is noticed."""

Wanted = dict[str, dict[str, int]]


def read_devices(path: Path) -> Wanted:
    """What a plugin advertises."""
    wanted: Wanted = json.loads(path.read_text())
    return wanted


def write_devices(path: Path, wanted: Wanted) -> None:
    """Change what a running plugin advertises."""
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(wanted))
    new.replace(path)


class Plugin:
    """The gRPC service of one resource."""

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self.socket = FOLDER / f"fake-{resource.rpartition('/')[2]}.sock"
        self._states: dict[str, str] = {}
        self._changed = threading.Condition()
        self._server: grpc.Server | None = None

    def set(self, count: int, unhealthy: int = 0) -> None:
        """Advertise `count` devices, the first `unhealthy` of them broken."""
        kind = self.resource.rpartition("/")[2]
        states = {f"FAKE-{kind}-{number}": "Unhealthy" if number < unhealthy else "Healthy" for number in range(count)}
        with self._changed:
            if states != self._states:
                self._states = states
                _log("devices", resource=self.resource, count=count, unhealthy=unhealthy)
                self._changed.notify_all()

    def serve(self) -> None:
        """Listen on the resource's own socket, then tell the kubelet about it."""
        self.stop()
        self.socket.unlink(missing_ok=True)
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self._server.add_insecure_port(f"unix://{self.socket}")
        self._server.start()
        request = MESSAGES["RegisterRequest"](version=PACKAGE, endpoint=self.socket.name, resource_name=self.resource)
        # grpc would send the socket's path as authority, which the kubelet's server refuses
        options = [("grpc.default_authority", "localhost")]
        with grpc.insecure_channel(f"unix://{FOLDER}/kubelet.sock", options=options) as channel:
            register = channel.unary_unary(
                f"/{PACKAGE}.Registration/Register", _serialize, MESSAGES["Empty"].FromString
            )
            register(request, timeout=10)
        _log("registered", resource=self.resource)

    def stop(self) -> None:
        """Close the socket: the kubelet counts the resource's devices as gone."""
        if self._server:
            self._server.stop(0).wait()
            self._server = None

    def _list_and_watch(self, _: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        sent: dict[str, str] | None = None
        while context.is_active():
            with self._changed:
                if self._states == sent:
                    self._changed.wait(1)
                    continue
                sent = self._states
            devices = [MESSAGES["Device"](ID=name, health=health) for name, health in sent.items()]
            yield MESSAGES["ListAndWatchResponse"](devices=devices)

    def _allocate(self, request: Any, _: grpc.ServicerContext) -> Any:
        response = MESSAGES["AllocateResponse"]()
        for container in request.container_requests:
            names = list(container.devices_ids)
            _log("allocated", resource=self.resource, devices=names)
            response.container_responses.add().envs.add(key="NVIDIA_VISIBLE_DEVICES", value=",".join(names))
        return response

    def _handlers(self) -> grpc.GenericRpcHandler:
        def method(wrap: Callable[..., Any], call: Callable[..., Any], request: str) -> Any:
            return wrap(call, request_deserializer=MESSAGES[request].FromString, response_serializer=_serialize)

        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        methods = {
            "GetDevicePluginOptions": method(unary, lambda *_: MESSAGES["DevicePluginOptions"](), "Empty"),
            "ListAndWatch": method(stream, self._list_and_watch, "Empty"),
            "Allocate": method(unary, self._allocate, "AllocateRequest"),
            "PreStartContainer": method(unary, lambda *_: MESSAGES["Empty"](), "Empty"),
        }
        return grpc.method_handlers_generic_handler(f"{PACKAGE}.DevicePlugin", methods)


def run(file: Path) -> None:
    """Follow the file and the kubelet until killed; a restarted kubelet forgets its plugins and makes a new socket."""
    plugins: dict[str, Plugin] = {}
    kubelet = 0
    while True:
        wanted = read_devices(file)
        current = _inode(FOLDER / "kubelet.sock")
        stale = set(plugins) if current != kubelet else set(plugins) - set(wanted)
        for resource in stale:
            plugins.pop(resource).stop()
        kubelet = current
        for resource, devices in wanted.items() if kubelet else ():
            known = plugins.get(resource) or Plugin(resource)
            known.set(**devices)
            if resource not in plugins:
                _try_to_serve(known, plugins)
        time.sleep(POLL_SECONDS)


def _try_to_serve(plugin: Plugin, plugins: dict[str, Plugin]) -> None:
    try:
        plugin.serve()
    except grpc.RpcError as error:
        _log("registration failed", resource=plugin.resource, error=str(error))
        plugin.stop()
    else:
        plugins[plugin.resource] = plugin


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _serialize(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def _log(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)
