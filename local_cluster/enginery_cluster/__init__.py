"""A real single-node Kubernetes on one machine, without Docker: for `make demo`, the tests and the benchmarks.

    __main__ -> up, down, images, fleet, existing, kind      the commands
    up       -> node_process, network, addons, binaries      the story of a start
    down     -> leftovers, cgroups                           what a cluster can leave on a machine, and its removal
    node     (process 1 of the node's namespaces) -> node_mounts, components
    state, places, steps                                     words and paths everybody uses

Why namespaces of its own: docs/adr/0001-cluster-in-its-own-namespaces.md.
"""
