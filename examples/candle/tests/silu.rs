//! The operation against candle's own, forward and backward.

use candle_core::{DType, Device, Result, Tensor, Var};
use warpsmith_candle_example::silu_of;

fn assert_close(found: &Tensor, expected: &Tensor) -> Result<()> {
    assert_eq!(found.dims(), expected.dims());
    let difference = (found - expected)?.abs()?.flatten_all()?.max(0)?.to_scalar::<f32>()?;
    // A few roundings of values below 10.
    assert!(difference < 1e-5, "they differ by {difference}");
    Ok(())
}

/// The host, and with the feature `cuda` a GPU, whose absence is told.
fn devices() -> Vec<Device> {
    let mut devices = vec![Device::Cpu];
    if !cfg!(feature = "cuda") {
        println!("SKIPPED on GPUs: built without the feature `cuda`");
    } else if let Ok(gpu) = Device::new_cuda_with_stream(0) {
        devices.push(gpu);
    } else {
        assert!(std::env::var_os("WARPSMITH_REQUIRE_GPU").is_none(), "candle finds no GPU");
        println!("SKIPPED on GPUs: candle finds none");
    }
    devices
}

#[test]
fn the_operation_agrees_with_candles_own() -> Result<()> {
    devices().iter().try_for_each(agrees_on)
}

fn agrees_on(device: &Device) -> Result<()> {
    let x = Tensor::arange(-500f32, 500.0, device)?.affine(0.01, 0.0)?;
    assert_close(&silu_of(&x)?, &x.silu()?)?;
    // With an offset, and in another order than row-major.
    let matrix = x.reshape((10, 100))?;
    assert_close(&silu_of(&matrix.narrow(0, 3, 5)?)?, &matrix.narrow(0, 3, 5)?.silu()?)?;
    assert_close(&silu_of(&matrix.t()?)?, &matrix.t()?.silu()?)
}

#[test]
fn the_gradient_agrees_with_candles_own() -> Result<()> {
    devices().iter().try_for_each(gradient_agrees_on)
}

fn gradient_agrees_on(device: &Device) -> Result<()> {
    let x = Var::from_tensor(&Tensor::arange(-500f32, 500.0, device)?.affine(0.01, 0.0)?)?;
    let gradient = |y: Tensor| -> Result<Tensor> {
        let gradients = (&y * x.as_tensor())?.sum_all()?.backward()?;
        Ok(gradients.get(&x).expect("the sum depends on x").clone())
    };
    assert_close(&gradient(silu_of(&x)?)?, &gradient(x.silu()?)?)
}

#[test]
fn other_elements_are_refused() -> Result<()> {
    let x = Tensor::zeros(4, DType::F64, &Device::Cpu)?;
    let error = silu_of(&x).unwrap_err().to_string();
    assert!(error.contains("F32") && error.contains("F64"), "{error}");
    Ok(())
}
