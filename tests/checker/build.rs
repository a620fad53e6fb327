//! Compiles the kernels of the tests.

fn main() {
    // One architecture: the kernels are for the checker.
    warpsmith_build::Builder::new().architectures([75]).checked(true).compile();
}
