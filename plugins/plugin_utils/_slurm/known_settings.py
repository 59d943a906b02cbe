# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""The names that SLURM 22.05 and 24.11 take in slurm.conf: pure functions.

slurmctld does not start with an unknown one. Source: each name of slurm.conf(5) and of libslurmfull.so was given to the parser of
SLURM 24.11.5; SlurmctldPlugstack is of 22.05.8 alone.
"""

from __future__ import annotations

import difflib
import typing as t

RELEASES = ("22.05", "24.11")

NAMES = {
    "conf": """
        AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageExternalHost AccountingStorageHost
        AccountingStorageLoc AccountingStorageParameters AccountingStoragePass AccountingStoragePort
        AccountingStorageTRES AccountingStorageType AccountingStorageUser AccountingStoreFlags
        AccountingStoreJobComment AcctGatherEnergyType AcctGatherFilesystemType AcctGatherInfinibandType
        AcctGatherInterconnectType AcctGatherNodeFreq AcctGatherProfileType AllowSpecResourcesUsage AuthAltParameters
        AuthAltTypes AuthInfo AuthType BackupAddr BackupController BatchStartTimeout BcastExclude BcastParameters
        BurstBufferParameters BurstBufferType CertmgrParameters CertmgrType CliFilterPlugins ClusterName
        CommunicationParameters CompleteWait ControlAddr ControlMachine CoreSpecPlugin CpuFreqDef CpuFreqGovernors
        CredType CryptoType DataParserParameters DebugFlags DefCpuPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode
        DependencyParameters DisableRootJobs DownNodes EioTimeout EnforcePartLimits Epilog EpilogMsgTime
        EpilogSlurmctld ExtSensorsFreq ExtSensorsType FairShareDampeningFactor FastSchedule FederationParameters
        FirstJobId FrontendName GetEnvTimeout GpuFreqDef GresTypes GroupUpdateForce GroupUpdateTime HashPlugin
        HealthCheckInterval HealthCheckNodeState HealthCheckProgram InactiveLimit InteractiveStepOptions
        JobAcctGatherFrequency JobAcctGatherParams JobAcctGatherType JobCompHost JobCompLoc JobCompParams JobCompPass
        JobCompPort JobCompType JobCompUser JobContainerType JobCredentialPrivateKey JobCredentialPublicCertificate
        JobFileAppend JobRequeue JobSubmitPlugins KeepAliveTime KillOnBadExit KillWait LaunchParameters LaunchType
        Licenses LogTimeFormat MailDomain MailProg MaxArraySize MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId
        MaxMemPerCPU MaxMemPerNode MaxNodeCount MaxStepCount MaxTasksPerNode MCSParameters MCSPlugin MessageTimeout
        MinJobAge MpiDefault MpiParams NodeFeaturesPlugins NodeName NodeSet OverTimeLimit PartitionName PluginDir
        PlugStackConfig PowerParameters PowerPlugin PreemptExemptTime PreemptMode PreemptParameters PreemptType
        PrEpParameters PrEpPlugins PriorityCalcPeriod PriorityDecayHalfLife PriorityFavorSmall PriorityFlags
        PriorityMaxAge PriorityParameters PrioritySiteFactorParameters PrioritySiteFactorPlugin PriorityType
        PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize
        PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES PrivateData ProctrackType Prolog
        PrologEpilogTimeout PrologFlags PrologSlurmctld PropagatePrioProcess PropagateResourceLimits
        PropagateResourceLimitsExcept RebootProgram ReconfigFlags RequeueExit RequeueExitHold ResumeFailProgram
        ResumeProgram ResumeRate ResumeTimeout ResvEpilog ResvOverRun ResvProlog ReturnToService RoutePlugin
        SallocDefaultCommand SbcastParameters SchedulerParameters SchedulerTimeSlice SchedulerType ScronParameters
        SelectType SelectTypeParameters SlurmctldAddr SlurmctldDebug SlurmctldHost SlurmctldLogFile
        SlurmctldParameters SlurmctldPidFile SlurmctldPlugstack SlurmctldPort SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg
        SlurmctldSyslogDebug SlurmctldTimeout SlurmdDebug SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdPort
        SlurmdSpoolDir SlurmdSyslogDebug SlurmdTimeout SlurmdUser SlurmSchedLogFile SlurmSchedLogLevel SlurmUser
        SrunEpilog SrunPortRange SrunProlog StateSaveLocation SuspendExcNodes SuspendExcParts SuspendExcStates
        SuspendProgram SuspendRate SuspendTime SuspendTimeout SwitchParameters SwitchType TaskEpilog TaskPlugin
        TaskPluginParam TaskProlog TCPTimeout TLSParameters TLSType TmpFS TopologyParam TopologyPlugin TrackWCKey
        TreeWidth UnkillableStepProgram UnkillableStepTimeout UsePam VSizeFactor Waittime X11Parameters
    """,
    "partition": """
        AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind DefaultTime DefCpuPerGPU DefMemPerCPU
        DefMemPerGPU DefMemPerNode DenyAccounts DenyQos DisableRootJobs ExclusiveTopo ExclusiveUser GraceTime Hidden
        LLN MaxCPUsPerNode MaxCPUsPerSocket MaxMemPerCPU MaxMemPerNode MaxNodes MaxTime MinNodes Nodes Oversubscribe
        OverTimeLimit PowerDownOnIdle PreemptMode Priority PriorityJobFactor PriorityTier Qos ReqResv ResumeTimeout
        RootOnly SelectTypeParameters Shared State SuspendTime SuspendTimeout TRESBillingWeights
    """,
    "node": """
        BcastAddr Boards CoreSpecCount CoresPerSocket CpuBind CPUs CPUSpecList Feature Features Gres MemSpecLimit
        NodeAddr NodeHostname Port Procs RealMemory Reason RestrictedCoresPerGPU Sockets SocketsPerBoard State
        ThreadsPerCore TmpDisk TRESWeights Weight
    """,
}
CONF, PARTITION, NODE = (text.split() for text in NAMES.values())


def unknown_errors(
    release: str,
    settings: t.Mapping[str, t.Any],
    partitions: t.Sequence[t.Mapping[str, t.Any]],
    nodes: t.Sequence[t.Mapping[str, t.Any]],
) -> list[str]:
    """Return a sentence for each setting that SLURM does not know.

    There is none for a release whose names are not known here.

    :param release: such as 24.11. settings: lines of slurm.conf. partitions, nodes: each with its name and its settings.
    """
    if release not in RELEASES:
        return []
    found = _unknown("slurm_cluster_settings", settings, CONF)
    for partition in partitions:
        found += _unknown(
            f"slurm_cluster_partitions: settings of partition {partition['name']}", partition.get("settings") or {}, PARTITION
        )
    for node in nodes:
        found += _unknown(f"slurm_cluster_node_settings of {node['name']}", node.get("settings") or {}, NODE)
    return [sentence.replace("RELEASE", release) for sentence in found]


def _unknown(where: str, settings: t.Mapping[str, t.Any], known: t.Sequence[str]) -> list[str]:
    by_name = {name.lower(): name for name in known}
    found = []
    for name in settings:
        if str(name).lower() not in by_name:
            near = difflib.get_close_matches(str(name).lower(), by_name, n=1)
            hint = f"did you mean {by_name[near[0]]}?" if near else "correct the name, or remove it there."
            found.append(f"{where} has {name}, which SLURM RELEASE does not know: {hint}")
    return found
