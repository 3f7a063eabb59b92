//! QuickJS and one script, as a plug-in: `hello.js` is what it does, this joins it to Extism.

use extism_pdk::{plugin_fn, Error, FnResult};
use rquickjs::{CatchResultExt, Context, Ctx, Function, Object, Runtime};
use std::cell::OnceCell;

#[path = "../../script-engine/src/clock.rs"]
mod clock;

const SCRIPT: &str = include_str!("../hello.js");

thread_local! {
    /// Lives as long as the instance: the script runs once, its functions are called many times.
    static SCRIPTED: OnceCell<Context> = const { OnceCell::new() };
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

fn seed_each_instance(ctx: &Ctx) -> Result<(), rquickjs::Error> {
    let math: Object = ctx.globals().get("Math")?;
    math.set("random", Function::new(ctx.clone(), clock::random)?)
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
    clock::start();
}
