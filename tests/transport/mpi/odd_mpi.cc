// Stands before MPI in the processes of a run (LD_PRELOAD): the call that MOESH_FAILING_CALL names fails, and requests that nobody has
// completed are told at the end.
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string_view>

#include <mpi.h>

namespace {

bool fails(std::string_view call) {
  const char* failing = std::getenv("MOESH_FAILING_CALL");
  return failing != nullptr && call == failing;
}

std::set<MPI_Request*>& active() {
  static std::set<MPI_Request*> requests;
  return requests;
}

}  // namespace

extern "C" {

int MPI_Init_thread(int* count, char*** words, int required, int* provided) {
  const int code = PMPI_Init_thread(count, words, required, provided);
  if (fails("MPI_Init_thread")) *provided = MPI_THREAD_SINGLE;
  return code;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) { return fails("MPI_Comm_dup") ? MPI_ERR_OTHER : PMPI_Comm_dup(comm, made); }

int MPI_Type_commit(MPI_Datatype* type) { return fails("MPI_Type_commit") ? MPI_ERR_OTHER : PMPI_Type_commit(type); }

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  if (fails("MPI_Isend")) return MPI_ERR_OTHER;
  active().insert(request);
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Improbe(int from, int tag, MPI_Comm comm, int* is_there, MPI_Message* message, MPI_Status* status) {
  return fails("MPI_Improbe") ? MPI_ERR_OTHER : PMPI_Improbe(from, tag, comm, is_there, message, status);
}

int MPI_Imrecv(void* data, int count, MPI_Datatype type, MPI_Message* message, MPI_Request* request) {
  if (fails("MPI_Imrecv")) return MPI_ERR_OTHER;
  active().insert(request);
  return PMPI_Imrecv(data, count, type, message, request);
}

int MPI_Test(MPI_Request* request, int* is_done, MPI_Status* status) {
  if (fails("MPI_Test")) return MPI_ERR_OTHER;
  const int code = PMPI_Test(request, is_done, status);
  if (*is_done != 0) active().erase(request);
  return code;
}

int MPI_Finalize() {
  if (!active().empty()) std::fprintf(stderr, "%zu requests are active at MPI_Finalize\n", active().size());
  return PMPI_Finalize();
}

}  // extern "C"
