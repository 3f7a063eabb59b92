//! The functions that scripts call, as the object `host`. Bytes are Uint8Arrays, and results codes, negative for failures.

use extism_pdk::{config, Memory};
use rquickjs::{function::Func, Ctx, Object, TypedArray, Value};

#[link(wasm_import_module = "wasm-serve:http")]
extern "C" {
    fn request_read(max: u64) -> i64;
    fn response_start(head: u64) -> i64;
    fn response_write(block: u64) -> i64;
    fn response_flush() -> i64;
    fn response_trailers(trailers: u64) -> i64;
    fn sse(event: u64) -> i64;
    fn wait(ms: u64) -> i64;
    fn client_gone() -> i32;
    fn http_open(request: u64) -> i64;
    fn http_write(request: i64, block: u64) -> i64;
    fn http_response(request: i64) -> i64;
    fn http_read(request: i64, max: u64) -> i64;
    fn http_close(request: i64) -> i64;
}

/// Adds the object to the globals.
pub fn install(ctx: &Ctx) -> rquickjs::Result<()> {
    let host = Object::new(ctx.clone())?;
    host.set("request_read", Func::from(read))?;
    host.set("response_start", Func::from(start))?;
    host.set("response_write", Func::from(write))?;
    host.set("response_flush", Func::from(|| unsafe { response_flush() }))?;
    host.set("response_trailers", Func::from(trailers))?;
    host.set("sse", Func::from(event))?;
    host.set("wait", Func::from(|ms: f64| unsafe { wait(ms as u64) }))?;
    host.set("client_gone", Func::from(|| unsafe { client_gone() }))?;
    host.set("http_open", Func::from(open))?;
    host.set("http_write", Func::from(write_to))?;
    host.set("http_end", Func::from(|request: i32| unsafe { http_write(request.into(), 0) }))?;
    host.set("http_response", Func::from(response))?;
    host.set("http_read", Func::from(read_from))?;
    host.set("http_close", Func::from(|request: i32| unsafe { http_close(request.into()) }))?;
    host.set("config", Func::from(|name: String| config::get(name).unwrap_or_default()))?;
    host.set("encode", Func::from(encode))?;
    host.set("decode", Func::from(decode))?;
    ctx.globals().set("host", host)
}

/// A piece; or 0 at the end of the body, or the code of a failure.
fn read(ctx: Ctx, max: u32) -> rquickjs::Result<Value> {
    let code = unsafe { request_read(max.into()) };
    match u64::try_from(code).ok().and_then(Memory::find) {
        Some(block) => TypedArray::new(ctx, block.to_vec()).map(TypedArray::into_value),
        None => Ok(Value::new_number(ctx, code as f64)),
    }
}

fn start(head: TypedArray<u8>) -> i64 {
    with_block(head, |at| unsafe { response_start(at) })
}

fn write(bytes: TypedArray<u8>) -> i64 {
    with_block(bytes, |at| unsafe { response_write(at) })
}

fn trailers(json: TypedArray<u8>) -> i64 {
    with_block(json, |at| unsafe { response_trailers(at) })
}

fn event(json: TypedArray<u8>) -> i64 {
    with_block(json, |at| unsafe { sse(at) })
}

fn open(json: TypedArray<u8>) -> i64 {
    with_block(json, |at| unsafe { http_open(at) })
}

fn write_to(request: i32, bytes: TypedArray<u8>) -> i64 {
    with_block(bytes, |at| unsafe { http_write(request.into(), at) })
}

fn response(ctx: Ctx, request: i32) -> rquickjs::Result<Value> {
    take(ctx, unsafe { http_response(request.into()) })
}

fn read_from(ctx: Ctx, request: i32, max: u32) -> rquickjs::Result<Value> {
    take(ctx, unsafe { http_read(request.into(), max.into()) })
}

/// The bytes of a block, which is freed; or 0 if there are none, or the code of a failure.
fn take(ctx: Ctx, code: i64) -> rquickjs::Result<Value> {
    let Some(block) = u64::try_from(code).ok().and_then(Memory::find) else {
        return Ok(Value::new_number(ctx, code as f64));
    };
    let bytes = TypedArray::new(ctx, block.to_vec());
    block.free();
    bytes.map(TypedArray::into_value)
}

fn encode(ctx: Ctx, text: String) -> rquickjs::Result<TypedArray<u8>> {
    TypedArray::new(ctx, text)
}

/// As UTF-8. Bytes that are not become replacement characters.
fn decode(bytes: TypedArray<u8>) -> String {
    String::from_utf8_lossy(view(&bytes)).into_owned()
}

fn with_block(bytes: TypedArray<u8>, run: impl Fn(u64) -> i64) -> i64 {
    let Ok(block) = Memory::from_bytes(view(&bytes)) else {
        return TOO_LARGE;
    };
    let code = run(block.offset());
    block.free();
    code
}

fn view<'a>(bytes: &'a TypedArray<u8>) -> &'a [u8] {
    // No script, which could detach or change them, runs meanwhile.
    unsafe { bytes.as_bytes() }.unwrap_or_default()
}

const TOO_LARGE: i64 = -5;
