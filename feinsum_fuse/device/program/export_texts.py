"""The texts of exported programs; ``@NAME@`` and the like are replaced."""

from __future__ import annotations

README = """@NAME@
======

``@NAME@.cl`` is OpenCL C for arrays of these sizes (strides count elements):

@ARGUMENTS@

From Python, with NumPy and pyopencl: ``python @NAME@.py`` runs it on random inputs; ``from @NAME@ import run; run(**inputs)`` returns
the outputs by name.

From C: ``cc -o @NAME@ @NAME@.c -ldl``, then ``./@NAME@ [part of a device's name]`` in this folder. It reads ``<input>.bin`` and writes
``<output>.bin``, the elements as they lie in memory. The library that it loads is ``libOpenCL.so.1``, or what ``OPENCL_LIBRARY`` names.
Where the system has none, pyopencl's wheels bring one in their folder ``.libs``: it dies unless ``PYOPENCL_HOME`` names the folder of that
pyopencl, and wants ``OCL_ICD_VENDORS`` to name a folder with a file ``driver.icd`` that holds the whole path of a driver, such as theirs.
``@NAME@.h`` has sizes, arguments and launches for a host of your own.
"""

PYTHON = '''"""Runs @NAME@.cl; needs NumPy and pyopencl."""

import json
from pathlib import Path

import numpy as np
import pyopencl as cl

PROGRAM = json.loads("""@PROGRAM@""")


def run(queue=None, **inputs):
    """The outputs by name, for NumPy arrays by name."""
    context = queue.context if queue else cl.create_some_context(interactive=False)  # some drivers end it with its last reference
    queue = queue or cl.CommandQueue(context)
    source = Path(__file__).with_suffix(".cl").read_text(encoding="utf-8")
    program = cl.Program(context, source).build(options=PROGRAM["options"])
    memory, flags = {}, cl.mem_flags.READ_WRITE
    for argument in PROGRAM["arguments"]:
        flat = np.zeros(argument["elements"], argument["dtype"])
        if argument["role"] == "input":
            view(flat, argument)[...] = inputs[argument["name"]]
        memory[argument["name"]] = cl.Buffer(context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=flat)
    for launch in PROGRAM["launches"]:
        kernel = cl.Kernel(program, launch["kernel"])
        kernel.set_args(*(memory[name] for name in launch["arguments"]))
        cl.enqueue_nd_range_kernel(queue, kernel, launch["global_size"], launch["local_size"])
    outputs = {}
    for argument in PROGRAM["arguments"]:
        if argument["role"] == "output":
            flat = np.empty(argument["elements"], argument["dtype"])
            cl.enqueue_copy(queue, flat, memory[argument["name"]])
            outputs[argument["name"]] = view(flat, argument).copy()
    return outputs


def view(flat, argument):
    """The array that lies in flat memory."""
    strides = [stride * flat.itemsize for stride in argument["strides"]]
    return np.lib.stride_tricks.as_strided(flat, argument["shape"], strides)


if __name__ == "__main__":
    random = np.random.default_rng(0)
    given = {a["name"]: random.random(a["shape"]).astype(a["dtype"]) for a in PROGRAM["arguments"] if a["role"] == "input"}
    for name, value in run(**given).items():
        print(name, value.shape, value.dtype, "sum", value.sum())
'''

HOST_C = r"""/* Runs @NAME@.cl: reads <input>.bin, writes <output>.bin. The few functions of OpenCL 1.2 that it needs are declared here. */
#include "@NAME@.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *handle;
static void *library;

static void *symbol(const char *name) {
  void *found = dlsym(library, name);
  if (!found) { fprintf(stderr, "no %s in the OpenCL library\n", name); exit(1); }
  return found;
}
#define CALL(result, name, parameters) ((result (*) parameters)symbol(#name))

static void check(int error, const char *what) {
  if (error) { fprintf(stderr, "%s: OpenCL error %d\n", what, error); exit(1); }
}

static void *contents(const char *name, const char *ending, size_t *length) {
  char path[512];
  snprintf(path, sizeof path, "%s%s", name, ending);
  FILE *file = fopen(path, "rb");
  if (!file) { perror(path); exit(1); }
  fseek(file, 0, SEEK_END);
  *length = (size_t)ftell(file);
  rewind(file);
  char *data = calloc(*length + 1, 1);
  if (!data || fread(data, 1, *length, file) != *length) { perror(path); exit(1); }
  fclose(file);
  return data;
}

static handle device_named(const char *part) {
  handle platforms[16], devices[16];
  unsigned platform_count = 0, count = 0;
  check(CALL(int, clGetPlatformIDs, (unsigned, handle *, unsigned *))(16, platforms, &platform_count), "clGetPlatformIDs");
  for (unsigned i = 0; i < platform_count && i < 16; ++i) {
    if (CALL(int, clGetDeviceIDs, (handle, uint64_t, unsigned, handle *, unsigned *))(platforms[i], 0xFFFFFFFF, 16, devices, &count))
      continue;
    for (unsigned k = 0; k < count && k < 16; ++k) {
      char name[256] = "";
      CALL(int, clGetDeviceInfo, (handle, unsigned, size_t, void *, size_t *))(devices[k], 0x102B, sizeof name - 1, name, NULL);
      if (strstr(name, part)) { fprintf(stderr, "on %s\n", name); return devices[k]; }
    }
  }
  fprintf(stderr, "no OpenCL device has '%s' in its name\n", part);
  exit(1);
}

int main(int argc, char **argv) {
  const char *path = getenv("OPENCL_LIBRARY");
  library = dlopen(path && *path ? path : "libOpenCL.so.1", RTLD_NOW);
  if (!library) { fprintf(stderr, "%s\n", dlerror()); return 1; }
  handle device = device_named(argc > 1 ? argv[1] : "");
  int error = 0;
  size_t length = 0;
  handle context = CALL(handle, clCreateContext, (void *, unsigned, handle *, void *, void *, int *))(NULL, 1, &device, NULL, NULL, &error);
  check(error, "clCreateContext");
  handle queue = CALL(handle, clCreateCommandQueue, (handle, handle, uint64_t, int *))(context, device, 0, &error);
  check(error, "clCreateCommandQueue");
  const char *source = contents("@NAME@", ".cl", &length);
  handle program =
      CALL(handle, clCreateProgramWithSource, (handle, unsigned, const char **, size_t *, int *))(context, 1, &source, &length, &error);
  check(error, "clCreateProgramWithSource");
  check(CALL(int, clBuildProgram, (handle, unsigned, handle *, const char *, void *, void *))(program, 1, &device, options, NULL, NULL),
        "clBuildProgram");
  handle buffers[ARGUMENTS];
  for (int i = 0; i < ARGUMENTS; ++i) {
    void *data = NULL;
    if (arguments[i].role == INPUT) {
      data = contents(arguments[i].name, ".bin", &length);
      if (length != arguments[i].bytes) {
        fprintf(stderr, "%s.bin has %zu bytes, not %zu\n", arguments[i].name, length, arguments[i].bytes);
        return 1;
      }
    }
    size_t bytes = arguments[i].bytes ? arguments[i].bytes : 1;
    buffers[i] = CALL(handle, clCreateBuffer, (handle, uint64_t, size_t, void *, int *))(context, data ? 1 | 32 : 1, bytes, data, &error);
    check(error, arguments[i].name);
    free(data);
  }
  for (int i = 0; i < LAUNCHES; ++i) {
    handle kernel = CALL(handle, clCreateKernel, (handle, const char *, int *))(program, launches[i].kernel, &error);
    check(error, launches[i].kernel);
    for (int k = 0; k < launches[i].count; ++k)
      check(CALL(int, clSetKernelArg, (handle, unsigned, size_t, const void *))(kernel, (unsigned)k, sizeof(handle),
                                                                                &buffers[launches[i].arguments[k]]),
            "clSetKernelArg");
    check(CALL(int, clEnqueueNDRangeKernel,
               (handle, handle, unsigned, const size_t *, const size_t *, const size_t *, unsigned, void *, void *))(
              queue, kernel, launches[i].dimensions, NULL, launches[i].global, launches[i].local, 0, NULL, NULL),
          launches[i].kernel);
  }
  for (int i = 0; i < ARGUMENTS; ++i) {
    if (arguments[i].role != OUTPUT) continue;
    void *data = malloc(arguments[i].bytes + 1);
    check(CALL(int, clEnqueueReadBuffer, (handle, handle, unsigned, size_t, size_t, void *, unsigned, void *, void *))(
              queue, buffers[i], 1, 0, arguments[i].bytes, data, 0, NULL, NULL),
          arguments[i].name);
    char file_name[512];
    snprintf(file_name, sizeof file_name, "%s.bin", arguments[i].name);
    FILE *file = fopen(file_name, "wb");
    if (!file || fwrite(data, 1, arguments[i].bytes, file) != arguments[i].bytes) { perror(file_name); return 1; }
    fclose(file);
    free(data);
  }
  return 0;
}
"""
