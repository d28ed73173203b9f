// Command pause holds a pod's namespaces open, as registry.k8s.io/pause does. It is the only program of the sandbox
// image, which enginery_cluster writes without a registry and without a C compiler.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
}
