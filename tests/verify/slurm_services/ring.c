/* An MPI program: a number goes round all ranks, each adds one; each rank says where it is and which GPUs it may open. */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, number = 0;
    char host[64], path[32];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gethostname(host, sizeof host);
    if (rank > 0) MPI_Recv(&number, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    number++;
    MPI_Send(&number, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    if (rank == 0) MPI_Recv(&number, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int device = 0; device < 2; device++) {
        snprintf(path, sizeof path, "/dev/nvidia%d", device);
        if (open(path, O_RDWR) >= 0 || errno == ENXIO) printf("RING %d %d %s %d %s\n", rank, size, host, number, path);
    }
    MPI_Finalize();
    return 0;
}
