//! QuickJS and two scripts, as a plug-in: `streams.js` is what it does, `stream.js` is its library, this joins them to Extism.

mod host;

use extism_pdk::{plugin_fn, Error, FnResult};
use rquickjs::{CatchResultExt, Context, Function, Runtime};
use std::cell::OnceCell;

const SCRIPTS: [&str; 2] = [include_str!("../stream.js"), include_str!("../streams.js")];

thread_local! {
    /// Lives as long as the instance: the scripts run once, their functions are called many times.
    static SCRIPTED: OnceCell<Context> = const { OnceCell::new() };
}

#[plugin_fn]
pub fn hash() -> FnResult<String> {
    Ok(call("hash", "")?)
}

#[plugin_fn]
pub fn filter() -> FnResult<String> {
    Ok(call("filter", "")?)
}

#[plugin_fn]
pub fn count() -> FnResult<String> {
    Ok(call("count", "")?)
}

#[plugin_fn]
pub fn proxy(request: String) -> FnResult<String> {
    Ok(call("proxy", &request)?)
}

/// Calls the scripts' function of this name. Its result, if it has one, is the output.
fn call(name: &str, input: &str) -> Result<String, Error> {
    SCRIPTED.with(|context| {
        context.get_or_init(|| run_scripts().expect("the scripts run")).with(|ctx| {
            let function: Function = ctx.globals().get(name)?;
            let output: Option<String> =
                function.call((input,)).catch(&ctx).map_err(|thrown| Error::msg(thrown.to_string()))?;
            Ok(output.unwrap_or_default())
        })
    })
}

fn run_scripts() -> Result<Context, rquickjs::Error> {
    let context = Context::full(&Runtime::new()?)?;
    context.with(|ctx| {
        host::install(&ctx)?;
        SCRIPTS.iter().try_for_each(|script| ctx.eval::<(), _>(*script))
    })?;
    Ok(context)
}

extern "C" {
    fn __wasm_call_ctors();
}

/// A module without it is taken for a command: the linker has each export begin with the constructors of C, and end with
/// its destructors.
#[no_mangle]
pub extern "C" fn _initialize() {
    unsafe { __wasm_call_ctors() }
}
