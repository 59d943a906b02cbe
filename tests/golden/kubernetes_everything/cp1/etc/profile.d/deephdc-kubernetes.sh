# Made by deephdc.accelerators: kubectl finds the cluster, for users who have no settings of their own.
if [ -z "${KUBECONFIG:-}" ] && [ ! -e "$HOME/.kube/config" ] && [ "$(id -u)" -ne 0 ]; then
    export KUBECONFIG=/etc/kubernetes/users.conf
fi
