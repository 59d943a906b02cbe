#!/bin/sh
# Made by deephdc.accelerators. Tells a job that shares a GPU by MPS where its daemon listens. Runs as the user, before each task.
[ -n "$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" ] && [ -r "/run/deephdc/mps/$SLURM_JOB_ID" ] || exit 0
read -r name <"/run/deephdc/mps/$SLURM_JOB_ID"
echo "export CUDA_MPS_PIPE_DIRECTORY=/run/deephdc-mps/$name"
echo "export CUDA_MPS_LOG_DIRECTORY=/run/deephdc-mps/$name"
