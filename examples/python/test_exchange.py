"""Runs the example's kernels on the tensors of each library that is installed, and says which are not.

On a machine with a GPU the tensors are on it, elsewhere in the memory of the host, where the CPU executor runs the kernels.
`python test_exchange.py numpy torch` makes these two's absence a failure.
"""

import gc
import sys

import exchange_kernels


def numpy():
    import numpy as np

    yield "numpy", lambda values: np.array(values, np.float32), np.from_dlpack, None, np.asarray


def torch():
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    make = lambda values: torch.tensor(values, dtype=torch.float32, device=device)
    host = lambda x: x.cpu().numpy()
    if device == "cpu":
        yield "torch on the host", make, torch.from_dlpack, None, host
        return
    # The default stream has the handle 0, which DLPack writes as 1.
    current = lambda: torch.cuda.current_stream().cuda_stream or 1
    yield "torch on the default stream", make, torch.from_dlpack, current, host
    with torch.cuda.stream(torch.cuda.Stream()):
        yield "torch on a stream of its own", make, torch.from_dlpack, current, host


def cupy():
    import cupy

    make = lambda values: cupy.array(values, cupy.float32)
    current = lambda: cupy.cuda.get_current_stream().ptr or 1
    yield "cupy on the default stream", make, cupy.from_dlpack, current, cupy.asnumpy
    with cupy.cuda.Stream(non_blocking=True):
        yield "cupy on a stream of its own", make, cupy.from_dlpack, current, cupy.asnumpy


def jax():
    import jax
    import numpy as np

    make = lambda values: jax.numpy.array(values, jax.numpy.float32)
    # JAX names no current stream: the kernel's own one waits for the array, and the call for the kernel.
    yield "jax on " + jax.default_backend(), make, jax.dlpack.from_dlpack, None, np.asarray


class Capsule:
    """A tensor of a library that has functions in place of `__dlpack__`."""

    def __init__(self, tensor, capsule, device):
        self.tensor, self.capsule, self.device = tensor, capsule, device

    def __dlpack__(self, stream=None):
        return self.capsule(self.tensor)

    def __dlpack_device__(self):
        return self.device


def tensorflow():
    import tensorflow as tf

    to_dlpack, from_dlpack = tf.experimental.dlpack.to_dlpack, tf.experimental.dlpack.from_dlpack
    device = (2, 0) if tf.config.list_physical_devices("GPU") else (1, 0)

    def make(values):
        tensor = tf.constant(values, tf.float32)
        tensor.numpy()  # TensorFlow names no stream: its work is done once the values are on the host.
        return Capsule(tensor, to_dlpack, device)

    def host(x):
        return x.tensor.numpy() if isinstance(x, Capsule) else x.numpy()

    yield "tensorflow", make, lambda array: from_dlpack(array.__dlpack__()), None, host


def check(make, take, stream, host, in_place):
    import numpy as np

    x_values, y_values = np.arange(10_000) / 4, np.arange(10_000) * 2.0
    number = stream() if stream else None
    x, y = make(x_values.tolist()), make(y_values.tolist())
    for _ in range(50):
        result = take(exchange_kernels.saxpy(3.0, x, y, number))
        np.testing.assert_array_equal(host(result), (3 * x_values + y_values).astype(np.float32))
    if in_place:
        exchange_kernels.scale(2.0, x, number)
        np.testing.assert_array_equal(host(x), (2 * x_values).astype(np.float32))
    matrix = make([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    result = take(exchange_kernels.saxpy(2.0, matrix, matrix, number))
    np.testing.assert_array_equal(host(result), np.array([[3, 6, 9], [12, 15, 18]], np.float32))
    # The result outlives everything that it was made from.
    result = take(exchange_kernels.saxpy(1.0, make([1.0] * 1000), make([2.0] * 1000), number))
    gc.collect()
    np.testing.assert_array_equal(host(result), np.full(1000, 3, np.float32))
    try:
        exchange_kernels.saxpy(1.0, make([1.0]), make([1.0, 2.0]), number)
    except BufferError as error:
        assert "shapes differ: [1] and [2]" in str(error), error
    else:
        raise AssertionError("different shapes were taken")


def check_numpy_refusals():
    import numpy as np

    def refused(text, *arguments):
        try:
            exchange_kernels.scale(2.0, *arguments)
        except BufferError as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"taken: {text}")

    x = np.arange(6, dtype=np.float32)
    refused("negative strides", x[::-1])
    refused("not row-major", x[::2])
    refused("not row-major", x.reshape(2, 3).T)
    refused("the elements are float64", x.astype(np.float64))
    np.testing.assert_array_equal(x, np.arange(6, dtype=np.float32))
    exchange_kernels.scale(2.0, x[2:4])
    np.testing.assert_array_equal(x, np.array([0, 1, 4, 6, 4, 5], np.float32))
    exchange_kernels.scale(2.0, np.zeros((3, 0), np.float32))
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    refused("may only be read", frozen)
    array = exchange_kernels.saxpy(1.0, x, x)
    np.from_dlpack(array)
    try:
        np.from_dlpack(array)
    except BufferError as error:
        assert "handed over before" in str(error), error
    else:
        raise AssertionError("handed over twice")
    # A capsule that nobody consumes.
    del array
    exchange_kernels.saxpy(1.0, x, x).__dlpack__()
    gc.collect()


def main():
    required, ran = set(sys.argv[1:]), set()
    for library in (numpy, torch, cupy, jax, tensorflow):
        try:
            for name, make, take, stream, host in library():
                check(make, take, stream, host, in_place=library not in (jax, tensorflow))
                print("passed: " + name)
            ran.add(library.__name__)
        except ImportError as error:
            print(f"SKIPPED: {library.__name__} ({error})")
    if "numpy" in ran:
        check_numpy_refusals()
        print("passed: what is refused")
    if missing := required - ran:
        sys.exit("not installed: " + ", ".join(sorted(missing)))


if __name__ == "__main__":
    main()
