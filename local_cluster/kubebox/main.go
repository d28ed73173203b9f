// Command kubebox is a single-machine Kubernetes: every component in one binary, chosen by the name it is called by
// (kubectl -> kubebox) or by its first argument (kubebox kubectl). One binary shares one compilation of the libraries
// that all components import, so a first build takes minutes where nine separate ones would take an hour.
//
// Built and started by the Python package enginery_cluster beside it.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind" // CoreDNS plugins register themselves; only those of our Corefile
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	helm "helm.sh/helm/v4/pkg/cmd"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// components start one program each and return its exit code; os.Args is the program's own by then.
var components = map[string]func() int{
	"coredns":                 func() int { coremain.Run(); return 0 },
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"helm":                    runHelm,
	"kube-apiserver":          run(apiserver.NewAPIServerCommand),
	"kube-controller-manager": run(controllermanager.NewControllerManagerCommand),
	"kube-proxy":              run(kubeproxy.NewProxyCommand),
	"kube-scheduler":          run(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubectl":                 run(kubectl.NewDefaultKubectlCommand),
	"kubelet":                 run(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
}

func main() {
	name := filepath.Base(os.Args[0])
	if components[name] == nil && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = slices.Delete(os.Args, 1, 2)
		os.Args[0] = name
	}
	start := components[name]
	if start == nil {
		fmt.Fprintln(os.Stderr, "usage: kubebox COMPONENT [flags]; no component is called", name)
		os.Exit(2)
	}
	os.Exit(start())
}

// run defers making the command until it is the one that was asked for: making one registers global flags.
func run(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

func runHelm() int {
	command, err := helm.NewRootCmd(os.Stdout, os.Args[1:], helm.SetupLogging)
	if err == nil {
		err = command.Execute()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil {
		return 1
	}
	return 0
}
