#[cfg_attr(not(debug_assertions), inline(always))]
/// Adds `a * x` to `y`.
pub fn saxpy(a: f32, x: &[f32], mut y: GridSliceMut<f32>) {}
/// Adds `a * x` to `y`.
#[non_exhaustive]
pub enum saxpy {}
impl saxpy {
    /// Queues the kernel `saxpy` on `stream`, over the grid that `config` gives.
    ///
    /// Adds `a * x` to `y`.
    ///
    /// # Errors
    /// When the launch is refused; also reports a failure of work queued earlier on `stream`.
    #[inline(never)]
    pub fn launch(
        stream: &::warpsmith::Stream,
        config: impl ::warpsmith::LaunchPlan,
        a: f32,
        x: impl ::warpsmith::LaunchArg<&'static [f32]>,
        y: impl ::warpsmith::LaunchArg<GridSliceMut<'static, f32>>,
    ) -> ::warpsmith::Result<()> {
        let kernel = Self::__kernel();
        let threads = kernel.threads();
        let mut launch = ::warpsmith::__private::Launch::new(stream, config, &kernel)?;
        let raw0 = a;
        let raw1 = launch.bind::<&'static [f32], _>(x)?;
        let raw2 = launch.bind::<GridSliceMut<'static, f32>, _>(y)?;
        unsafe {
            launch
                .launch(
                    (raw0, raw1, raw2, threads),
                    |bound, sink: &mut ::warpsmith::__private::ArgumentSink<'_>| {
                        let (raw0, raw1, raw2, _) = bound;
                        <::warpsmith::__private::Value<
                            f32,
                        > as ::warpsmith::__private::KernelParam>::arguments(raw0, sink);
                        <::warpsmith::__private::Slice<
                            f32,
                        > as ::warpsmith::__private::KernelParam>::arguments(raw1, sink);
                        <GridSliceMut<
                            'static,
                            f32,
                        > as ::warpsmith::__private::KernelParam>::arguments(raw2, sink);
                    },
                    |
                        bound,
                        context: &mut ::warpsmith::__private::Context<'_>,
                        first: ::core::primitive::u32,
                        count: ::core::primitive::u64|
                    {
                        let (raw0, raw1, raw2, threads) = *bound;
                        threads(
                            context,
                            first,
                            count,
                            raw0,
                            <::warpsmith::__private::Value<
                                f32,
                            > as ::warpsmith::__private::KernelParam>::memory(&raw0),
                            raw1,
                            <::warpsmith::__private::Slice<
                                f32,
                            > as ::warpsmith::__private::KernelParam>::memory(&raw1),
                            raw2,
                            <GridSliceMut<
                                'static,
                                f32,
                            > as ::warpsmith::__private::KernelParam>::memory(&raw2),
                        );
                    },
                )
        }
    }
    /// Loads the kernel `saxpy` for `device`, as its first launch would, to ask what it needs and to prepare launches.
    ///
    /// # Errors
    /// When the kernel's code is not there for this device, or the driver refuses it.
    pub fn load(
        device: &::warpsmith::Device,
    ) -> ::warpsmith::Result<::warpsmith::Kernel> {
        ::warpsmith::Kernel::load(device, &Self::__kernel())
    }
    #[allow(clippy::type_complexity, reason = "they are the kernel's own types")]
    fn __kernel() -> ::warpsmith::__private::KernelInstance<
        unsafe fn(
            context: &mut ::warpsmith::__private::Context<'_>,
            first: ::core::primitive::u32,
            count: ::core::primitive::u64,
            raw0: f32,
            memory0: (),
            raw1: ::warpsmith::__private::RawSlice<f32>,
            memory1: &'static [f32; 0],
            raw2: <GridSliceMut<
                'static,
                f32,
            > as ::warpsmith::__private::KernelParam>::Raw,
            memory2: <GridSliceMut<
                'static,
                f32,
            > as ::warpsmith::__private::KernelParam>::Memory,
        ),
    > {
        struct __Instance(::core::marker::PhantomData<()>);
        impl __Instance {
            const OPTIONS: ::warpsmith::__private::KernelOptions = ::warpsmith::__private::KernelOptions {
                block: [64, 2, 1],
                contract: 1,
                ..::warpsmith::__private::KernelOptions::NONE
            };
            const PARAMS: &'static [::warpsmith::__private::ParamDesc] = &[
                <::warpsmith::__private::Value<
                    f32,
                > as ::warpsmith::__private::KernelParam>::DESC,
                <::warpsmith::__private::Slice<
                    f32,
                > as ::warpsmith::__private::KernelParam>::DESC,
                <GridSliceMut<'static, f32> as ::warpsmith::__private::KernelParam>::DESC,
            ];
            const DESC: &'static ::warpsmith::__private::KernelDesc = &::warpsmith::__private::KernelDesc::new(
                "saxpy",
                ::core::module_path!(),
                ::core::file!(),
                ::core::line!(),
                ::core::column!(),
                Self::OPTIONS,
                Self::PARAMS,
            );
            fn register() {
                ::warpsmith::__private::register_entry(
                    Self::entry as *const (),
                    Self::DESC,
                    ::core::any::type_name::<Self>(),
                );
            }
            #[allow(
                improper_ctypes_definitions,
                reason = "the caller is the device build's lowering"
            )]
            unsafe extern "C-unwind" fn entry(
                first0: ::warpsmith::__private::ByVal<f32>,
                second0: (),
                first1: &'static [f32; 0],
                second1: ::core::primitive::usize,
                first2: <GridSliceMut<
                    'static,
                    f32,
                > as ::warpsmith::__private::KernelParam>::Abi0,
                second2: <GridSliceMut<
                    'static,
                    f32,
                > as ::warpsmith::__private::KernelParam>::Abi1,
            ) {
                let scope = unsafe { ::warpsmith::__private::Scope::new() };
                let argument0 = unsafe {
                    <::warpsmith::__private::Value<
                        f32,
                    > as ::warpsmith::__private::KernelParam>::from_abi(
                        first0,
                        second0,
                        &scope,
                    )
                };
                let argument1 = unsafe {
                    <::warpsmith::__private::Slice<
                        f32,
                    > as ::warpsmith::__private::KernelParam>::from_abi(
                        first1,
                        second1,
                        &scope,
                    )
                };
                let argument2 = unsafe {
                    <GridSliceMut<
                        'static,
                        f32,
                    > as ::warpsmith::__private::KernelParam>::from_abi(
                        first2,
                        second2,
                        &scope,
                    )
                };
                saxpy(argument0, argument1, argument2);
            }
            #[inline(never)]
            #[allow(
                clippy::too_many_arguments,
                clippy::type_complexity,
                reason = "two for each of the kernel, of its types"
            )]
            unsafe fn threads(
                context: &mut ::warpsmith::__private::Context<'_>,
                first: ::core::primitive::u32,
                count: ::core::primitive::u64,
                raw0: f32,
                memory0: (),
                raw1: ::warpsmith::__private::RawSlice<f32>,
                memory1: &'static [f32; 0],
                raw2: <GridSliceMut<
                    'static,
                    f32,
                > as ::warpsmith::__private::KernelParam>::Raw,
                memory2: <GridSliceMut<
                    'static,
                    f32,
                > as ::warpsmith::__private::KernelParam>::Memory,
            ) {
                let raw0 = <::warpsmith::__private::Value<
                    f32,
                > as ::warpsmith::__private::KernelParam>::with_memory(raw0, memory0);
                let raw1 = <::warpsmith::__private::Slice<
                    f32,
                > as ::warpsmith::__private::KernelParam>::with_memory(raw1, memory1);
                let raw2 = <GridSliceMut<
                    'static,
                    f32,
                > as ::warpsmith::__private::KernelParam>::with_memory(raw2, memory2);
                unsafe {
                    context
                        .run_threads(
                            first,
                            count,
                            &__Bound {
                                raw0,
                                raw1,
                                raw2,
                                instance: ::core::marker::PhantomData,
                            },
                        )
                };
            }
            #[inline(never)]
            #[allow(
                clippy::too_many_arguments,
                clippy::type_complexity,
                reason = "as above"
            )]
            unsafe fn joined_threads(
                context: &mut ::warpsmith::__private::Context<'_>,
                threads: ::warpsmith::__private::JoinedThreads,
                raw0: f32,
                memory0: (),
                raw1: ::warpsmith::__private::RawSlice<f32>,
                memory1: &'static [f32; 0],
                raw2: <GridSliceMut<
                    'static,
                    f32,
                > as ::warpsmith::__private::KernelParam>::Raw,
                memory2: <GridSliceMut<
                    'static,
                    f32,
                > as ::warpsmith::__private::KernelParam>::Memory,
            ) {
                let raw0 = <::warpsmith::__private::Value<
                    f32,
                > as ::warpsmith::__private::KernelParam>::with_memory(raw0, memory0);
                let raw1 = <::warpsmith::__private::Slice<
                    f32,
                > as ::warpsmith::__private::KernelParam>::with_memory(raw1, memory1);
                let raw2 = <GridSliceMut<
                    'static,
                    f32,
                > as ::warpsmith::__private::KernelParam>::with_memory(raw2, memory2);
                unsafe {
                    context
                        .run_joined(
                            threads,
                            &__Bound {
                                raw0,
                                raw1,
                                raw2,
                                instance: ::core::marker::PhantomData,
                            },
                        )
                };
            }
        }
        #[allow(clippy::type_complexity, reason = "they are the kernel's own types")]
        struct __Bound {
            raw0: f32,
            raw1: ::warpsmith::__private::RawSlice<f32>,
            raw2: <GridSliceMut<
                'static,
                f32,
            > as ::warpsmith::__private::KernelParam>::Raw,
            instance: ::core::marker::PhantomData<__Instance>,
        }
        unsafe impl ::warpsmith::__private::BoundKernel for __Bound {
            const IS_PLANE: ::core::primitive::bool = false
                || <::warpsmith::__private::Value<
                    f32,
                > as ::warpsmith::__private::KernelParam>::IS_PLANE
                || <::warpsmith::__private::Slice<
                    f32,
                > as ::warpsmith::__private::KernelParam>::IS_PLANE
                || <GridSliceMut<
                    'static,
                    f32,
                > as ::warpsmith::__private::KernelParam>::IS_PLANE;
            #[inline(always)]
            fn reaches(
                &self,
                place: &::warpsmith::__private::ThreadPlace,
            ) -> ::core::primitive::bool {
                let Self { raw0, raw1, raw2, instance: _ } = *self;
                true
                    && <::warpsmith::__private::Value<
                        f32,
                    > as ::warpsmith::__private::KernelParam>::reaches(&raw0, place)
                    && <::warpsmith::__private::Slice<
                        f32,
                    > as ::warpsmith::__private::KernelParam>::reaches(&raw1, place)
                    && <GridSliceMut<
                        'static,
                        f32,
                    > as ::warpsmith::__private::KernelParam>::reaches(&raw2, place)
            }
            #[inline(always)]
            fn run(&self, scope: &::warpsmith::__private::Scope) {
                let Self { raw0, raw1, raw2, instance: _ } = *self;
                let argument0 = unsafe {
                    <::warpsmith::__private::Value<
                        f32,
                    > as ::warpsmith::__private::KernelParam>::from_raw(raw0, scope)
                };
                let argument1 = unsafe {
                    <::warpsmith::__private::Slice<
                        f32,
                    > as ::warpsmith::__private::KernelParam>::from_raw(raw1, scope)
                };
                let argument2 = unsafe {
                    <GridSliceMut<
                        'static,
                        f32,
                    > as ::warpsmith::__private::KernelParam>::from_raw(raw2, scope)
                };
                saxpy(argument0, argument1, argument2);
            }
            #[inline(always)]
            fn run_joined(
                &self,
                context: &mut ::warpsmith::__private::Context<'_>,
                threads: ::warpsmith::__private::JoinedThreads,
            ) {
                let Self { raw0, raw1, raw2, instance: _ } = *self;
                unsafe {
                    __Instance::joined_threads(
                        context,
                        threads,
                        raw0,
                        <::warpsmith::__private::Value<
                            f32,
                        > as ::warpsmith::__private::KernelParam>::memory(&raw0),
                        raw1,
                        <::warpsmith::__private::Slice<
                            f32,
                        > as ::warpsmith::__private::KernelParam>::memory(&raw1),
                        raw2,
                        <GridSliceMut<
                            'static,
                            f32,
                        > as ::warpsmith::__private::KernelParam>::memory(&raw2),
                    )
                };
            }
        }
        #[used]
        static REGISTRATION: ::core::option::Option<fn()> = if ::warpsmith::__private::IS_NESTED_BUILD {
            ::core::option::Option::Some(__Instance::register)
        } else {
            ::core::option::Option::None
        };
        if ::warpsmith::__private::IS_NESTED_BUILD {
            __Instance::register();
        }
        ::warpsmith::__private::KernelInstance::new(
            __Instance::DESC,
            ::core::any::type_name::<__Instance>(),
            &["a", "x", "y"],
            __Instance::threads,
        )
    }
}
