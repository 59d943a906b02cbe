# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The fields of kubelet and kube-proxy, and their kinds: pure functions.

They are those of KubeletConfiguration v1beta1 and KubeProxyConfiguration v1alpha1.

kubelet takes an unknown field and passes over it, and does not start with a value of another kind. Source: types.go of the Go modules
k8s.io/kubelet and k8s.io/kube-proxy, 0.36.3 and 0.37.0.
"""

from __future__ import annotations

import difflib
import re
import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import shown

KUBELET = {
    "bool": """
        cgroupsPerQOS cpuCFSQuota enableContentionProfiling enableControllerAttachDetach enableDebugFlagsHandler
        enableDebuggingHandlers enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery failCgroupV1
        failSwapOn kernelMemcgNotification localStorageCapacityIsolation makeIPTablesUtilChains mergeDefaultEvictionSettings
        protectKernelDefaults registerNode rotateCertificates runOnce seccompDefault serializeImagePulls serverTLSBootstrap
        singleProcessOOMKill
    """,
    "dict": """
        authentication authorization crashLoopBackOff logging memorySwap staticPodURLHeader tracing userNamespaces
    """,
    "duration": """
        containerLogMonitorInterval cpuCFSQuotaPeriod cpuManagerReconcilePeriod evictionPressureTransitionPeriod
        fileCheckFrequency httpCheckFrequency imageMaximumGCAge imageMinimumGCAge nodeStatusReportFrequency
        nodeStatusUpdateFrequency runtimeRequestTimeout shutdownGracePeriod shutdownGracePeriodCriticalPods
        streamingConnectionIdleTimeout syncFrequency volumeStatsAggPeriod
    """,
    "fraction": """
        memoryThrottlingFactor
    """,
    "list": """
        registerWithTaints reservedMemory shutdownGracePeriodByPodPriority tlsCurvePreferences
    """,
    "number": """
        containerLogMaxFiles containerLogMaxWorkers eventBurst eventRecordQPS evictionMaxPodGracePeriod healthzPort
        imageGCHighThresholdPercent imageGCLowThresholdPercent iptablesDropBit iptablesMasqueradeBit kubeAPIBurst kubeAPIQPS
        maxOpenFiles maxParallelImagePulls maxPods nodeLeaseDurationSeconds nodeStatusMaxImages oomScoreAdj podPidsLimit
        podsPerCore port readOnlyPort registryBurst registryPullQPS
    """,
    "switches": """
        featureGates
    """,
    "text": """
        address cgroupDriver cgroupRoot clusterDomain configMapAndSecretChangeDetectionStrategy containerLogMaxSize
        containerRuntimeEndpoint contentType cpuManagerPolicy hairpinMode healthzBindAddress
        imagePullCredentialsVerificationPolicy imageServiceEndpoint kubeReservedCgroup kubeletCgroups memoryManagerPolicy
        memoryReservationPolicy podCIDR podLogsDir providerID reservedSystemCPUs resolvConf showHiddenMetricsForVersion
        staticPodPath staticPodURL systemCgroups systemReservedCgroup tlsCertFile tlsMinVersion tlsPrivateKeyFile
        topologyManagerPolicy topologyManagerScope volumePluginDir
    """,
    "texts": """
        cpuManagerPolicyOptions defaultPodSysctls evictionHard evictionMinimumReclaim evictionSoft evictionSoftGracePeriod
        kubeReserved qosReserved systemReserved topologyManagerPolicyOptions
    """,
    "words": """
        allowedUnsafeSysctls clusterDNS enforceNodeAllocatable preloadedImagesVerificationAllowlist tlsCipherSuites
    """,
}
KUBE_PROXY = {
    "bool": """
        bindAddressHardFail enableProfiling windowsRunAsService
    """,
    "dict": """
        clientConnection conntrack detectLocal iptables ipvs logging nftables winkernel
    """,
    "duration": """
        configSyncPeriod
    """,
    "number": """
        oomScoreAdj
    """,
    "switches": """
        featureGates
    """,
    "text": """
        bindAddress clusterCIDR detectLocalMode healthzBindAddress hostnameOverride metricsBindAddress mode portRange
        showHiddenMetricsForVersion
    """,
    "words": """
        nodePortAddresses
    """,
}
DURATION = re.compile(r"([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+|0")
SAID = {
    "bool": "true or false",
    "dict": "a dictionary",
    "duration": "a time with its unit, such as 5m",
    "fraction": "a number",
    "list": "a list",
    "number": "a whole number",
    "switches": "a dictionary whose values are true or false",
    "text": "a text",
    "texts": "a dictionary whose values are texts, such as '1' or 1Gi",
    "words": "a list of texts",
}


def is_kind(value: t.Any, kind: str) -> bool:
    """Return whether a program takes a value for a field of this kind.

    A bool is a number to Python.
    """
    if kind in ("switches", "texts"):
        inner = "bool" if kind == "switches" else "text"
        return isinstance(value, dict) and all(is_kind(one, inner) for one in value.values())
    if kind == "words":
        return is_kind(value, "list") and all(is_kind(one, "text") for one in value)
    if kind == "duration":
        return isinstance(value, str) and DURATION.fullmatch(value) is not None
    kinds: dict[str, tuple[type, ...]] = {"bool": (bool,), "dict": (dict,), "list": (list, tuple), "text": (str,), "fraction": (int, float)}
    return isinstance(value, kinds.get(kind, (int,))) and isinstance(value, bool) == (kind == "bool")


def field_errors(where: str, given: t.Mapping[str, t.Any], known: t.Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what is wrong, and what to do, for each wrong field.

    The program does not know it, or would not start with it.

    :param where: the variable. known: KUBELET or KUBE_PROXY.
    """
    kinds = {name: kind for kind, names in known.items() for name in names.split()}
    found = []
    for name, value in given.items():
        kind = kinds.get(name)
        if kind is None:
            near = difflib.get_close_matches(str(name)[:60], kinds, 1)
            remedy = f"did you mean {near[0]}" if near else "take it out"
            found.append((f"{where} has the field {shown(name)}, which Kubernetes does not know", remedy))
        elif value is not None and not is_kind(value, kind):
            found.append((f"{where} has {name}: {shown(value)}, with which it does not start", f"write {SAID[kind]}"))
    return found
