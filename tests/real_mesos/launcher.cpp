// Starts the master and the agent that PyPI's mesos.scheduler holds, in one process.
//
// They are in its module for Python 2, which no release of today has. So this program loads the module as a library, gives it the few
// names of Python that it has as data, and makes a scheduler by its C++ interface, with the master "local" (local::launch of Mesos).
// Flags come from MESOS_* and LIBPROCESS_*. The framework's principal and secret come from PRINCIPAL and SECRET.
//
// usage: launcher LIBRARY                 runs until it is ended
//        launcher LIBRARY master|slave    prints the flags of mesos-master or mesos-agent, as --help does
#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <typeinfo>

// Data that the module wants from Python. Nothing reads it, as no part of Python's interface is used.
extern "C" {
void *PyExc_Exception, *PyExc_TypeError;
char _Py_NoneStruct[64];
}

namespace {

void *library;

void *symbol(const char *name) {
  void *found = dlsym(library, name);
  if (!found) {
    fprintf(stderr, "launcher: mesos.scheduler has no %s\n", name);
    exit(3);
  }
  return found;
}

void say(const char *what, const std::string &text = "") {
  printf("%s %s\n", what, text.c_str());
  fflush(stdout);
}

// The order is that of the virtual functions in include/mesos/scheduler.hpp of 1.11.0. Arguments that are not read have no type.
class Scheduler {
 public:
  virtual ~Scheduler() {}
  virtual void registered(void *, const void *, const void *) { say("REGISTERED"); }
  virtual void reregistered(void *, const void *) { say("REREGISTERED"); }
  virtual void disconnected(void *) { say("DISCONNECTED"); }
  virtual void resourceOffers(void *, const void *) { say("OFFERS"); }
  virtual void offerRescinded(void *, const void *) {}
  virtual void statusUpdate(void *, const void *) {}
  virtual void frameworkMessage(void *, const void *, const void *, const std::string &) {}
  virtual void slaveLost(void *, const void *) { say("AGENT LOST"); }
  virtual void executorLost(void *, const void *, const void *, int) {}
  virtual void error(void *, const std::string &message) { say("ERROR", message); }
};

// One field of a protobuf message: a short string.
std::string field(int number, const std::string &value) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(value.size()) + value;
}

// A message, made by the library's own constructor. No message here is as large as this.
void *message(const char *type, const std::string &content) {
  void *made = calloc(1, 4096);
  reinterpret_cast<void (*)(void *)>(symbol(type))(made);
  auto parse = reinterpret_cast<bool (*)(void *, const std::string &)>(symbol("_ZN6google8protobuf11MessageLite15ParseFromStringERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"));
  if (!parse(made, content)) {
    fprintf(stderr, "launcher: a message is not taken\n");
    exit(3);
  }
  return made;
}

const char *setting(const char *name) {
  const char *value = getenv(name);
  if (!value) {
    fprintf(stderr, "launcher: %s is not set\n", name);
    exit(2);
  }
  return value;
}

// Option<std::string> of stout: its state (0 is some, 1 is none), then the text.
struct Text {
  int state = 0;
  std::string text;
};

// As mesos-master does first: a path without the name of a process is the master's.
void initialize() {
  const Text master{0, "master"}, readonly{0, "mesos-master-readonly"}, readwrite{0, "mesos-master-readwrite"};
  reinterpret_cast<bool (*)(const Text &, const Text &, const Text &)>(symbol("_ZN7process10initializeERK6OptionINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEES9_S9_"))(master, readonly, readwrite);
}

// What --help of a program prints: its class of flags is made, and asked as what it is derived from.
void print_flags(const std::string &program) {
  const std::string name = "N5mesos8internal" + std::to_string(program.size()) + program + "5FlagsE";
  void *flags = calloc(1, 1 << 20);
  reinterpret_cast<void (*)(void *)>(symbol(("_Z" + name.substr(0, name.size() - 1) + "C1Ev").c_str()))(flags);
  void *base = flags;
  static_cast<const std::type_info *>(symbol(("_ZTI" + name).c_str()))
      ->__do_upcast(static_cast<const abi::__class_type_info *>(symbol("_ZTIN5flags9FlagsBaseE")), &base);
  const Text nothing{1, ""};
  auto usage = reinterpret_cast<std::string (*)(const void *, const void *)>(symbol("_ZNK5flags9FlagsBase5usageERK6OptionINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEE"));
  say(usage(base, &nothing).c_str());
}

}  // namespace

int main(int count, char **arguments) {
  library = dlopen(arguments[1], RTLD_LAZY | RTLD_GLOBAL);
  if (!library) {
    fprintf(stderr, "launcher: %s\n", dlerror());
    return 3;
  }
  if (count > 2) {
    print_flags(arguments[2]);
    return 0;
  }
  const std::string principal = setting("PRINCIPAL"), secret = setting("SECRET"), master = "local";
  initialize();
  void *framework = message("_ZN5mesos13FrameworkInfoC1Ev", field(1, "nobody") + field(2, "real") + field(8, principal));
  void *credential = message("_ZN5mesos10CredentialC1Ev", field(1, principal) + field(2, secret));
  void *driver = calloc(1, 4096);
  using Constructor = void (*)(void *, Scheduler *, const void *, const std::string &, bool, const void *);
  reinterpret_cast<Constructor>(symbol("_ZN5mesos20MesosSchedulerDriverC1EPNS_9SchedulerERKNS_13FrameworkInfoERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEbRKNS_10CredentialE"))(
      driver, new Scheduler, framework, master, true, credential);
  reinterpret_cast<int (*)(void *)>(symbol("_ZN5mesos20MesosSchedulerDriver5startEv"))(driver);
  for (;;) pause();
}
