//! QuickJS as a plug-in that waits for its script. `snapshot.ts` starts it and keeps its memory. wasm-serve writes a script into a copy
//! of that, as data, with an export for each function, and an `_initialize` that copies the data to `script_space` and runs it.

mod clock;
mod host;
mod user_hosts;
mod wasm_serve;
mod web_url;

use extism_pdk::{extism::error_set, LogLevel, Memory};
use rquickjs::context::EvalOptions;
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Error, Exception, FromJs, Function, Module, Object, Persistent, Runtime, Value};
use std::cell::{OnceCell, RefCell};

/// Makes the globals of scripts, and returns the functions that this file calls: `globals`, bundled.
const GLOBALS: &str = include_str!("../target/globals.js");

/// The name of [`GLOBALS`] in stacks, which its functions leave out.
const GLOBALS_FILE: &str = "wasm-serve";

/// What lives as long as the instance.
struct Engine {
    context: Context,
    /// What [`GLOBALS`] returned.
    functions: Persistent<Object<'static>>,
}

thread_local! {
    static ENGINE: OnceCell<Engine> = const { OnceCell::new() };
    /// A description of the script as a line of JSON, and the script.
    static SCRIPT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// What the script imports, of which there is nothing here.
    static MISSING: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// The modules of wasm-serve that it imports.
    static USED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// The last result of [`script_inspect`].
    static FACTS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for the script.
#[no_mangle]
pub extern "C" fn script_space(length: usize) -> *mut u8 {
    SCRIPT.with_borrow_mut(|script| {
        script.resize(length, 0);
        script.as_mut_ptr()
    })
}

/// Runs the script. Traps if it fails: the host gets the reason as the error of the plug-in.
#[no_mangle]
pub extern "C" fn script_start() {
    let started = with_engine(|ctx, engine| {
        let exported = run(ctx, engine)?;
        function(engine, "started")?.call::<_, ()>((exported,))
    });
    if let Err(report) = started {
        fail(&report);
        core::arch::wasm32::unreachable()
    }
    SCRIPT.take();
}

/// Runs the script, and describes as JSON what it exports, or its failure, and what it imports in vain.
///
/// Returns the address of the length of the text, four bytes, which the text follows.
#[no_mangle]
pub extern "C" fn script_inspect() -> *const u8 {
    let facts = with_engine(|ctx, engine| {
        let result = run(ctx, engine).catch(ctx);
        let missing = MISSING.take();
        match result {
            Ok(exported) => function(engine, "inspect")?.call::<_, String>((exported, missing, USED.take())),
            Err(thrown) => function(engine, "inspectFailure")?.call((value_of(ctx, thrown)?, missing)),
        }
    });
    let text = facts.unwrap_or_else(|report| report);
    FACTS.with_borrow_mut(|facts| {
        *facts = [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        facts.as_ptr()
    })
}

/// Calls a function of the script, by its place in the description's list. Returns 0, or another code of a failure.
#[no_mangle]
pub extern "C" fn script_call(index: u32) -> i32 {
    let code = with_engine(|ctx, engine| {
        let called = function(engine, "call")?.call((index,))?;
        let code = settle(ctx, engine, called);
        function(engine, "ended")?.call::<_, ()>(())?;
        code
    });
    code.unwrap_or_else(|report| {
        fail(&report);
        1
    })
}

/// The host gets the message, which may go to a client, and the log the stack as well.
fn fail(report: &str) {
    let message = report.split("\n    at ").next().unwrap_or_default();
    if let (Ok(whole), Ok(message)) = (Memory::from_bytes(report), Memory::from_bytes(message)) {
        whole.log(LogLevel::Error);
        unsafe { error_set(message.offset()) };
    }
}

/// A failure becomes its description.
fn with_engine<T>(work: impl for<'js> FnOnce(&Ctx<'js>, &Object<'js>) -> rquickjs::Result<T>) -> Result<T, String> {
    ENGINE.with(|engine| {
        let Engine { context, functions } = engine.get().expect("the engine was started");
        context.with(|ctx| {
            let engine = functions.clone().restore(&ctx).expect("the functions are of this context");
            work(&ctx, &engine).catch(&ctx).map_err(|thrown| {
                value_of(&ctx, thrown)
                    .and_then(|error| function(&engine, "describe")?.call::<_, String>((error,)))
                    .unwrap_or_else(|error| error.to_string())
            })
        })
    })
}

fn function<'js>(engine: &Object<'js>, name: &str) -> rquickjs::Result<Function<'js>> {
    engine.get(name)
}

fn value_of<'js>(ctx: &Ctx<'js>, thrown: CaughtError<'js>) -> rquickjs::Result<Value<'js>> {
    match thrown {
        CaughtError::Exception(exception) => Ok(exception.into_object().into_value()),
        CaughtError::Value(value) => Ok(value),
        CaughtError::Error(error) => Ok(Exception::from_message(ctx.clone(), &error.to_string())?.into_object().into_value()),
    }
}

/// @returns the object that has the functions.
fn run<'js>(ctx: &Ctx<'js>, engine: &Object<'js>) -> rquickjs::Result<Value<'js>> {
    let script = SCRIPT.with_borrow(|script| String::from_utf8_lossy(script).into_owned());
    let (about, source) = script.split_once('\n').unwrap_or(("{}", &script));
    let about: Object = function(engine, "describedBy")?.call((about,))?;
    let file: String = about.get("file")?;
    let is_module: Option<bool> = about.get("isModule")?;
    if is_module != Some(true) {
        let options = options_of(&file);
        match ctx.eval_with_options::<Value, _>(source, options) {
            Ok(_) => return function(engine, "commonJs")?.call(()),
            Err(error) if is_module == Some(false) => return Err(error),
            Err(error) => {
                let thrown = ctx.catch();
                // Only a module may have `import`, `export` and a top-level `await`.
                if !function(engine, "mayBeModule")?.call::<_, bool>((thrown.clone(), source))? {
                    ctx.throw(thrown);
                    return Err(error);
                }
            }
        }
    }
    let (module, evaluated) = Module::declare(ctx.clone(), file, source)?.eval()?;
    settle::<()>(ctx, engine, evaluated.into_value())?;
    Ok(module.namespace()?.into_value())
}

fn options_of(file: &str) -> EvalOptions {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(file.to_owned());
    options
}

/// Runs what is left to do, until a promise is settled. Any other value is taken at once.
fn settle<'js, T: FromJs<'js>>(ctx: &Ctx<'js>, engine: &Object<'js>, value: Value<'js>) -> rquickjs::Result<T> {
    let Some(promise) = value.as_promise() else {
        while ctx.execute_pending_job() {}
        return T::from_js(ctx, value);
    };
    loop {
        match promise.finish() {
            Err(Error::WouldBlock) => function(engine, "turn")?.call::<_, ()>(())?,
            result => return result,
        }
    }
}

/// Scripts import the modules of wasm-serve. What is in other files was bundled into them.
struct Modules;

impl Resolver for Modules {
    fn resolve<'js>(&mut self, ctx: &Ctx<'js>, _base: &str, name: &str, _: Option<ImportAttributes<'js>>) -> rquickjs::Result<String> {
        if engine_of(ctx)?.get::<_, Object>("modules")?.contains_key(name)? {
            USED.with_borrow_mut(|used| used.push(name.to_owned()));
            return Ok(name.to_owned());
        }
        MISSING.with_borrow_mut(|missing| missing.push(name.to_owned()));
        Err(Exception::throw_reference(ctx, &format!("cannot import {name:?}")))
    }
}

impl Loader for Modules {
    fn load<'js>(&mut self, ctx: &Ctx<'js>, name: &str, _: Option<ImportAttributes<'js>>) -> rquickjs::Result<Module<'js, Declared>> {
        let exported: Object = engine_of(ctx)?.get::<_, Object>("modules")?.get(name)?;
        let names = exported.keys::<String>().collect::<rquickjs::Result<Vec<_>>>()?.join(", ");
        let module = Module::declare(ctx.clone(), name, format!("export const {{ {names} }} = import.meta.exported"))?;
        module.meta()?.set("exported", exported)?;
        Ok(module)
    }
}

fn engine_of<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    ENGINE.with(|engine| engine.get().expect("the engine was started").functions.clone().restore(ctx))
}

/// Bytes of the stack in memory. Beyond it a script gets an error that it can catch; the host's own stack, whose frames are larger, has
/// room for as many calls.
const MAX_STACK: usize = 327_680;

/// Notes promises that are rejected while nothing handles that, and forgets those that are handled later.
fn track<'js>(ctx: Ctx<'js>, promise: Value<'js>, reason: Value<'js>, is_handled: bool) {
    // There is no engine yet while it opens.
    if let Some(engine) = ENGINE.with(|engine| engine.get().and_then(|engine| engine.functions.clone().restore(&ctx).ok())) {
        let _ = function(&engine, "track").and_then(|track| track.call::<_, ()>((promise, reason, is_handled)));
    }
}

fn open() -> rquickjs::Result<Engine> {
    let runtime = Runtime::new()?;
    runtime.set_loader(Modules, Modules);
    runtime.set_max_stack_size(MAX_STACK);
    runtime.set_host_promise_rejection_tracker(Some(Box::new(track)));
    let context = Context::full(&runtime)?;
    let functions = context.with(|ctx| {
        let host = host::functions(&ctx)?;
        host.set("miss", Function::new(ctx.clone(), |name: String| MISSING.with_borrow_mut(|missing| missing.push(name)))?)?;
        host.set("use", Function::new(ctx.clone(), |name: String| USED.with_borrow_mut(|used| used.push(name)))?)?;
        let make: Function = ctx.eval_with_options(GLOBALS, options_of(GLOBALS_FILE))?;
        let functions: Object = make.call((host,))?;
        Ok::<_, Error>(Persistent::save(&ctx, functions))
    })?;
    Ok(Engine { context, functions })
}

extern "C" {
    fn __wasm_call_ctors();
}

/// Starts the engine without the host, because only a snapshot of it is used.
#[no_mangle]
pub extern "C" fn _initialize() {
    unsafe { __wasm_call_ctors() }
    ENGINE.with(|engine| {
        engine.get_or_init(|| open().expect("the engine starts"));
    });
    clock::start();
}
