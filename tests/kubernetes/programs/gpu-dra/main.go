// A DRA driver that stands in for NVIDIA's: it publishes the GPUs of a node as devices, and a claim gets the device file by CDI.
//
// It reads what stand_ins/libnvidia-ml.c reads: PROC_NVIDIA/gpus/*/information (default: /proc/driver/nvidia). A GPU whose UUID is the name of
// a file in PROC_NVIDIA/lost is published no more. Names of attributes are those of NVIDIA's driver, k8s-dra-driver-gpu.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	name     = "gpu.nvidia.com"
	kind     = "stand-in.invalid/gpu"
	spec     = "/var/run/cdi/stand-in-gpu.json"
	patience = 2 * time.Second
)

// Memory that a product's name does not say.
const usual = "16"

var said = regexp.MustCompile(`([0-9]+)GB`)

type driver struct{}

func (driver) HandleError(_ context.Context, err error, msg string) {
	fmt.Fprintln(os.Stderr, msg, err)
}

func (driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
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

func (driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	result := map[types.UID]error{}
	for _, claim := range claims {
		fmt.Println("unprepare", claim.Namespace, claim.Name)
		result[claim.UID] = nil
	}
	return result, nil
}

func (driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

type entry struct {
	Name  string         `json:"name"`
	Edits map[string]any `json:"containerEdits"`
}

// What one file says, by its keys.
func information(path string) map[string]string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for _, line := range strings.Split(string(text), "\n") {
		if key, value, ok := strings.Cut(line, ":"); ok {
			found[key] = strings.TrimSpace(value)
		}
	}
	return found
}

// The devices of this node that are not lost, and how a container gets each.
func read(root string) (devices []resourceapi.Device, entries []entry) {
	paths, _ := filepath.Glob(filepath.Join(root, "gpus/*/information"))
	for _, path := range paths {
		known := information(path)
		minor, uuid, product := known["Device Minor"], known["GPU UUID"], known["Model"]
		if minor == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, "lost", uuid)); err == nil {
			continue
		}
		size := usual
		if found := said.FindStringSubmatch(product); found != nil {
			size = found[1]
		}
		id, whole, address := "gpu-"+minor, "gpu", known["Bus Location"]
		devices = append(devices, resourceapi.Device{
			Name: id,
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"type": {StringValue: &whole}, "uuid": {StringValue: &uuid}, "productName": {StringValue: &product}, "pcieBusID": {StringValue: &address},
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(size + "Gi")}},
		})
		nodes := []map[string]string{{"path": "/dev/nvidia" + minor}}
		entries = append(entries, entry{id, map[string]any{"deviceNodes": nodes, "env": []string{"NVIDIA_VISIBLE_DEVICES=void"}}})
	}
	return devices, entries
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	node, root := os.Getenv("NODE_NAME"), os.Getenv("PROC_NVIDIA")
	if root == "" {
		root = "/proc/driver/nvidia"
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")) // none: the pod's service account
	must(err)
	client, err := kubernetes.NewForConfig(config)
	must(err)
	data := filepath.Join(kubeletplugin.KubeletPluginsDir, name)
	must(os.MkdirAll(data, 0o750))
	must(os.MkdirAll(filepath.Dir(spec), 0o755))
	helper, err := kubeletplugin.Start(ctx, driver{}, kubeletplugin.KubeClient(client), kubeletplugin.NodeName(node), kubeletplugin.DriverName(name),
		kubeletplugin.PluginDataDirectoryPath(data))
	must(err)
	defer helper.Stop()

	var before []byte
	for ctx.Err() == nil {
		devices, entries := read(root)
		text, err := json.Marshal(map[string]any{"cdiVersion": "0.6.0", "kind": kind, "devices": entries})
		must(err)
		if !bytes.Equal(text, before) {
			before = text
			if len(entries) > 0 { // a specification without devices is none
				must(os.WriteFile(spec, text, 0o644))
			}
			pools := map[string]resourceslice.Pool{node: {Slices: []resourceslice.Slice{{Devices: devices}}}}
			must(helper.PublishResources(ctx, resourceslice.DriverResources{Pools: pools}))
			fmt.Println("published", len(devices), "devices of", node)
		}
		select {
		case <-ctx.Done():
		case <-time.After(patience):
		}
	}
}
