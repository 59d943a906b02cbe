// A DRA driver that stands in for NVIDIA's: each /dev/nvidiaN is a device of its node, and a claim gets the device file by CDI.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	name = "gpu.nvidia.com"
	kind = "stand-in.invalid/gpu"
)

type driver struct{ cancel func() }

func (d driver) HandleError(_ context.Context, err error, msg string) {
	fmt.Fprintln(os.Stderr, msg, err)
}

func (d driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	result := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		prepared := kubeletplugin.PrepareResult{}
		for _, got := range claim.Status.Allocation.Devices.Results {
			if got.Driver != name {
				continue
			}
			prepared.Devices = append(prepared.Devices, kubeletplugin.Device{
				Requests: []string{got.Request}, PoolName: got.Pool, DeviceName: got.Device, CDIDeviceIDs: []string{kind + "=" + got.Device},
			})
		}
		fmt.Println("prepare", claim.Namespace, claim.Name, prepared.Devices)
		result[claim.UID] = prepared
	}
	return result, nil
}

func (d driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	result := map[types.UID]error{}
	for _, claim := range claims {
		fmt.Println("unprepare", claim.Namespace, claim.Name)
		result[claim.UID] = nil
	}
	return result, nil
}

func (d driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	node, _ := os.Hostname()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")) // none: the pod's service account
	must(err)
	client, err := kubernetes.NewForConfig(config)
	must(err)

	type entry struct {
		Name string         `json:"name"`
		Edit map[string]any `json:"containerEdits"`
	}
	var devices []resourceapi.Device
	var entries []entry
	paths, _ := filepath.Glob("/dev/nvidia[0-9]*")
	for _, path := range paths {
		minor, err := strconv.ParseInt(strings.TrimPrefix(path, "/dev/nvidia"), 10, 64)
		if err != nil {
			continue
		}
		id, product := fmt.Sprintf("gpu-%d", minor), "NVIDIA A100-SXM4-40GB"
		devices = append(devices, resourceapi.Device{
			Name: id,
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"type": {StringValue: new("gpu")}, "index": {IntValue: &minor}, "productName": {StringValue: &product},
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("40Gi")}},
		})
		nodes := []map[string]string{{"path": path}, {"path": "/dev/nvidiactl"}}
		entries = append(entries, entry{id, map[string]any{"deviceNodes": nodes, "env": []string{"NVIDIA_VISIBLE_DEVICES=void"}}})
	}
	spec, err := json.Marshal(map[string]any{"cdiVersion": "0.6.0", "kind": kind, "devices": entries})
	must(err)
	must(os.MkdirAll("/var/run/cdi", 0o755))
	must(os.WriteFile("/var/run/cdi/stand-in-gpu.json", spec, 0o644))
	data := filepath.Join(kubeletplugin.KubeletPluginsDir, name)
	must(os.MkdirAll(data, 0o750))
	helper, err := kubeletplugin.Start(ctx, driver{stop}, kubeletplugin.KubeClient(client), kubeletplugin.NodeName(node), kubeletplugin.DriverName(name),
		kubeletplugin.PluginDataDirectoryPath(data))
	must(err)
	defer helper.Stop()
	must(helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: {Slices: []resourceslice.Slice{{Devices: devices}}}}}))
	fmt.Println("published", len(devices), "devices of", node)
	<-ctx.Done()
}
