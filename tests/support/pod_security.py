"""The restricted pod security standard, field by field, and what we add to it. For every pod that we render."""

from typing import Any

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def violations(pod: dict[str, Any]) -> list[str]:
    """What a pod spec does that the restricted profile forbids; empty when it may run."""
    context = pod.get("securityContext", {})
    found = [f"{name} is set" for name in ("hostNetwork", "hostPID", "hostIPC", "hostUsers") if pod.get(name)]
    if context.get("seccompProfile", {}).get("type") not in {"RuntimeDefault", "Localhost"}:
        found.append("seccompProfile is not RuntimeDefault")
    if context.get("sysctls"):
        found.append("sysctls are set")
    found += [
        f"volume {volume['name']} is a {kinds}"
        for volume in pod.get("volumes", [])
        if (kinds := set(volume) - {"name"} - VOLUMES)
    ]
    for container in (*pod.get("initContainers", []), *pod["containers"]):
        found += [f"{container['name']}: {fault}" for fault in _container(container, context)]
    return found


def _container(container: dict[str, Any], pod: dict[str, Any]) -> list[str]:
    own = container.get("securityContext", {})
    merged = pod | own
    tests = {
        "privileged": bool(own.get("privileged")),
        "allowPrivilegeEscalation is not false": own.get("allowPrivilegeEscalation") is not False,
        "capabilities are not dropped": own.get("capabilities", {}).get("drop") != ["ALL"],
        "capabilities are added": bool(own.get("capabilities", {}).get("add")),
        "runAsNonRoot is not true": merged.get("runAsNonRoot") is not True,
        "runAsUser is root": merged.get("runAsUser") in {None, 0},
        "the root file system is writable": own.get("readOnlyRootFilesystem") is not True,
        "procMount is set": "procMount" in own,
        "a host port is taken": any("hostPort" in port for port in container.get("ports", [])),
        "memory has no limit": "memory" not in container.get("resources", {}).get("limits", {}),
        "CPU is not requested": "cpu" not in container.get("resources", {}).get("requests", {}),
        "an environment variable is a secret": any(
            "secretKeyRef" in item.get("valueFrom", {}) for item in container.get("env", [])
        )
        or "envFrom" in container,
    }
    return [fault for fault, holds in tests.items() if holds]
