//! QuickJS and one script, as a plug-in: `hello.js` is what it does, this joins it to Extism.

use extism_pdk::{plugin_fn, Error, FnResult};
use rquickjs::{CatchResultExt, Context, Ctx, Function, Object, Runtime};
use std::cell::{Cell, OnceCell};
use std::ffi::{c_int, c_void};

const SCRIPT: &str = include_str!("../hello.js");

thread_local! {
    /// Lives as long as the instance: the script runs once, its functions are called many times.
    static SCRIPTED: OnceCell<Context> = const { OnceCell::new() };
    /// The state of `Math.random`; 0 until the first number.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    static IS_STARTED: Cell<bool> = const { Cell::new(false) };
}

/// Calls the script's function of this name.
#[plugin_fn]
pub fn hello(input: String) -> FnResult<String> {
    Ok(call("hello", &input)?)
}

fn call(name: &str, input: &str) -> Result<String, Error> {
    SCRIPTED.with(|context| {
        context.get_or_init(|| run_script().expect("the script runs")).with(|ctx| {
            let function: Function = ctx.globals().get(name)?;
            function.call((input,)).catch(&ctx).map_err(|thrown| Error::msg(thrown.to_string()))
        })
    })
}

fn run_script() -> Result<Context, rquickjs::Error> {
    let context = Context::full(&Runtime::new()?)?;
    context.with(|ctx| {
        seed_each_instance(&ctx)?;
        ctx.eval::<(), _>(SCRIPT)
    })?;
    Ok(context)
}

/// QuickJS seeds `Math.random` when it starts. A host that keeps the memory of a started instance would give equal numbers to
/// all that it makes of it: so the first number is drawn by whoever asks for it.
fn seed_each_instance(ctx: &Ctx) -> Result<(), rquickjs::Error> {
    let math: Object = ctx.globals().get("Math")?;
    math.set("random", Function::new(ctx.clone(), random)?)
}

/// Xorshift64*, as in QuickJS.
fn random() -> f64 {
    let mut state = RANDOM.get();
    while state == 0 {
        let mut seed = [0; 8];
        assert_eq!(unsafe { random_get(seed.as_mut_ptr(), seed.len()) }, 0);
        state = u64::from_le_bytes(seed);
    }
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    RANDOM.set(state);
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
}

#[link(wasm_import_module = "wasi_snapshot_preview1")]
extern "C" {
    fn random_get(bytes: *mut u8, length: usize) -> u16;
    fn clock_time_get(clock: u32, precision: u64, nanoseconds: *mut u64) -> u16;
}

/// The times of C.
#[repr(C)]
pub struct TimeSpec {
    seconds: i64,
    nanoseconds: i32,
}

#[repr(C)]
pub struct TimeVal {
    seconds: i64,
    microseconds: i64,
}

/// This and the next one are of the C library, but that QuickJS starts without the host: it only wants a seed then. So all instances start alike.
#[no_mangle]
pub extern "C" fn clock_gettime(clock: &u32, time: &mut TimeSpec) -> c_int {
    let Some(nanoseconds) = tell(*clock) else { return -1 };
    *time = TimeSpec { seconds: nanoseconds / 1_000_000_000, nanoseconds: (nanoseconds % 1_000_000_000) as i32 };
    0
}

#[no_mangle]
pub extern "C" fn gettimeofday(time: &mut TimeVal, _zone: *mut c_void) -> c_int {
    let Some(nanoseconds) = tell(0) else { return -1 };
    *time = TimeVal { seconds: nanoseconds / 1_000_000_000, microseconds: nanoseconds % 1_000_000_000 / 1_000 };
    0
}

/// Nanoseconds, or None if the host has no such clock.
fn tell(clock: u32) -> Option<i64> {
    let mut nanoseconds = 0;
    let is_told = !IS_STARTED.get() || unsafe { clock_time_get(clock, 1, &mut nanoseconds) } == 0;
    is_told.then_some(nanoseconds as i64)
}

extern "C" {
    fn __wasm_call_ctors();
}

/// A module without it is taken for a command: the linker has each export begin with the constructors of C, and end with
/// its destructors. The script runs here, so that a host that keeps the memory of a started instance need not run it again.
#[no_mangle]
pub extern "C" fn _initialize() {
    unsafe { __wasm_call_ctors() }
    SCRIPTED.with(|context| {
        context.get_or_init(|| run_script().expect("the script runs"));
    });
    IS_STARTED.set(true);
}
