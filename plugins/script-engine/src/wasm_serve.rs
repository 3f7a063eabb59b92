//! The functions of wasm-serve for `globals`: streams, requests that are streamed, WebSockets, the store. wasm-serve removes the
//! imports that a script does not use, so that it runs on other hosts. Bytes are Uint8Arrays, results codes, negative for failures.

use crate::host::view;
use extism_pdk::Memory;
use rquickjs::{
    function::{Func, Opt},
    Ctx, Object, TypedArray, Value,
};

mod http {
    #[link(wasm_import_module = "wasm-serve:http")]
    extern "C" {
        pub fn request_read(max: u64) -> i64;
        pub fn response_start(head: u64) -> i64;
        pub fn response_write(block: u64) -> i64;
        pub fn response_flush() -> i64;
        pub fn response_trailers(trailers: u64) -> i64;
        pub fn sse(event: u64) -> i64;
        pub fn wait(ms: u64) -> i64;
        pub fn client_gone() -> i32;
        pub fn http_open(request: u64) -> i64;
        pub fn http_write(request: i64, block: u64) -> i64;
        pub fn http_response(request: i64) -> i64;
        pub fn http_read(request: i64, max: u64) -> i64;
        pub fn http_close(request: i64) -> i64;
        pub fn ws_receive() -> i64;
        pub fn ws_kind() -> i32;
        pub fn ws_send(block: u64, kind: i32) -> i64;
        pub fn ws_close(code: i32, reason: u64) -> i64;
    }
}

mod kv {
    #[link(wasm_import_module = "wasm-serve:kv")]
    extern "C" {
        pub fn get(key: u64) -> i64;
        pub fn set(key: u64, value: u64, ttl_ms: u64) -> i64;
        pub fn delete(key: u64) -> i64;
        pub fn list(prefix: u64, cursor: u64, limit: u64) -> i64;
        pub fn compare_and_swap(key: u64, expected: u64, value: u64, ttl_ms: u64) -> i64;
        pub fn set_if_absent(key: u64, value: u64, ttl_ms: u64) -> i64;
    }
}

type Bytes<'js> = TypedArray<'js, u8>;

pub fn add<'js>(host: &Object<'js>) -> rquickjs::Result<()> {
    host.set("requestRead", Func::from(request_read))?;
    host.set("responseStart", Func::from(|head: Bytes<'js>| run(&head, |at| unsafe { http::response_start(at) })))?;
    host.set("responseWrite", Func::from(|bytes: Bytes<'js>| give(&bytes, |at| unsafe { http::response_write(at) })))?;
    host.set("responseFlush", Func::from(|| unsafe { http::response_flush() } as f64))?;
    host.set("responseTrailers", Func::from(|json: Bytes<'js>| run(&json, |at| unsafe { http::response_trailers(at) })))?;
    host.set("sse", Func::from(|event: Bytes<'js>| run(&event, |at| unsafe { http::sse(at) })))?;
    host.set("wait", Func::from(|ms: f64| unsafe { http::wait(ms as u64) } as f64))?;
    host.set("clientGone", Func::from(|| unsafe { http::client_gone() }))?;
    host.set("httpOpen", Func::from(|json: Bytes<'js>| run(&json, |at| unsafe { http::http_open(at) })))?;
    host.set("httpWrite", Func::from(http_write))?;
    host.set("httpResponse", Func::from(|ctx: Ctx<'js>, request: f64| taken(ctx, unsafe { http::http_response(request as i64) })))?;
    host.set("httpRead", Func::from(|ctx: Ctx<'js>, request: f64, max: f64| taken(ctx, unsafe { http::http_read(request as i64, max as u64) })))?;
    host.set("httpClose", Func::from(|request: f64| unsafe { http::http_close(request as i64) } as f64))?;
    host.set("wsReceive", Func::from(|ctx: Ctx<'js>| found(ctx, unsafe { http::ws_receive() })))?;
    host.set("wsKind", Func::from(|| unsafe { http::ws_kind() }))?;
    host.set("wsSend", Func::from(|bytes: Bytes<'js>, kind: i32| give(&bytes, |at| unsafe { http::ws_send(at, kind) })))?;
    host.set("wsClose", Func::from(|code: i32, reason: Bytes<'js>| run(&reason, |at| unsafe { http::ws_close(code, at) })))?;
    host.set("kvGet", Func::from(|ctx: Ctx<'js>, key: Bytes<'js>| with(&key, |key| taken(ctx.clone(), unsafe { kv::get(key) }))))?;
    host.set("kvSet", Func::from(kv_set))?;
    host.set("kvDelete", Func::from(|key: Bytes<'js>| run(&key, |key| unsafe { kv::delete(key) })))?;
    host.set("kvList", Func::from(kv_list))?;
    host.set("kvSwap", Func::from(kv_swap))
}

/// The block of a piece is also the input of the call: it is not freed.
fn request_read(ctx: Ctx, max: f64) -> rquickjs::Result<Value> {
    found(ctx, unsafe { http::request_read(max as u64) })
}

/// Without bytes, the body ends.
fn http_write<'js>(request: f64, bytes: Opt<Bytes<'js>>) -> f64 {
    match bytes.0 {
        Some(bytes) => give(&bytes, |at| unsafe { http::http_write(request as i64, at) }),
        None => unsafe { http::http_write(request as i64, 0) as f64 },
    }
}

fn kv_set<'js>(key: Bytes<'js>, value: Bytes<'js>, ttl: f64, is_absent: bool) -> f64 {
    let ttl = ttl as u64;
    let set = |key, value| unsafe { if is_absent { kv::set_if_absent(key, value, ttl) } else { kv::set(key, value, ttl) } };
    with(&key, |key| with(&value, |value| set(key, value) as f64))
}

fn kv_list<'js>(ctx: Ctx<'js>, prefix: Bytes<'js>, cursor: Bytes<'js>, limit: f64) -> rquickjs::Result<Value<'js>> {
    with(&prefix, |prefix| with(&cursor, |cursor| taken(ctx.clone(), unsafe { kv::list(prefix, cursor, limit as u64) })))
}

fn kv_swap<'js>(key: Bytes<'js>, expected: Bytes<'js>, value: Bytes<'js>, ttl: f64) -> f64 {
    let swap = |key, expected, value| unsafe { kv::compare_and_swap(key, expected, value, ttl as u64) as f64 };
    with(&key, |key| with(&expected, |expected| with(&value, |value| swap(key, expected, value))))
}

/// The bytes of a block, or the code.
fn found(ctx: Ctx, code: i64) -> rquickjs::Result<Value> {
    match u64::try_from(code).ok().and_then(Memory::find) {
        Some(block) => TypedArray::new(ctx, block.to_vec()).map(TypedArray::into_value),
        None => Ok(Value::new_number(ctx, code as f64)),
    }
}

/// The bytes of a block, which is freed, or the code.
fn taken(ctx: Ctx, code: i64) -> rquickjs::Result<Value> {
    let value = found(ctx, code);
    if let Some(block) = u64::try_from(code).ok().and_then(Memory::find) {
        block.free();
    }
    value
}

fn run(bytes: &Bytes, work: impl Fn(u64) -> i64) -> f64 {
    with(bytes, |at| work(at) as f64)
}

/// Calls with the offset of a block, 0 for no bytes, and frees it.
fn with<T>(bytes: &Bytes, work: impl Fn(u64) -> T) -> T {
    let block = block_of(bytes);
    let result = work(block.as_ref().map_or(0, Memory::offset));
    if let Some(block) = block {
        block.free();
    }
    result
}

/// Calls with a block that the host frees, unless it returns 1 or a failure.
fn give(bytes: &Bytes, work: impl Fn(u64) -> i64) -> f64 {
    let Some(block) = block_of(bytes) else { return work(0) as f64 };
    let code = work(block.offset());
    if code != 0 {
        block.free();
    }
    code as f64
}

fn block_of(bytes: &Bytes) -> Option<Memory> {
    let bytes = view(bytes);
    if bytes.is_empty() { None } else { Memory::from_bytes(bytes).ok() }
}
