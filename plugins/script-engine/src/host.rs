//! The functions of the host for `globals.js`. Bytes are Uint8Arrays.

use crate::{clock, user_hosts, wasm_serve, web_url};
use extism_pdk::{config, extism, var, LogLevel, Memory};
use rquickjs::{
    function::{Func, Opt},
    Ctx, Exception, Object, TypedArray,
};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use std::time::Duration;

pub fn functions<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    host.set("input", Func::from(input))?;
    host.set("inputText", Func::from(input_text))?;
    host.set("output", Func::from(output))?;
    host.set("outputText", Func::from(output_text))?;
    host.set("config", Func::from(|name: String| config::get(name).ok().flatten()))?;
    host.set("getVar", Func::from(get_var))?;
    host.set("setVar", Func::from(set_var))?;
    host.set("request", Func::from(request))?;
    host.set("allocate", Func::from(allocate))?;
    host.set("lengthOf", Func::from(|at: f64| unsafe { extism::length(at as u64) } as f64))?;
    host.set("read", Func::from(read))?;
    host.set("free", Func::from(|at: f64| unsafe { extism::free(at as u64) }))?;
    host.set("log", Func::from(log))?;
    host.set("encode", Func::from(|ctx: Ctx<'js>, text: String| TypedArray::new(ctx, text)))?;
    host.set("decode", Func::from(decode))?;
    host.set("digest", Func::from(digest))?;
    host.set("randomBytes", Func::from(random_bytes))?;
    host.set("random", Func::from(clock::random))?;
    host.set("sleep", Func::from(|ms: f64| std::thread::sleep(Duration::from_secs_f64(ms / 1_000.0))))?;
    host.set("parseUrl", Func::from(web_url::parse))?;
    host.set("changeUrl", Func::from(web_url::change))?;
    host.set("callUser", Func::from(user_hosts::call))?;
    wasm_serve::add(&host)?;
    Ok(host)
}

fn input(ctx: Ctx) -> rquickjs::Result<TypedArray<u8>> {
    TypedArray::new(ctx, unsafe { extism::load_input() })
}

/// None if it is not UTF-8.
fn input_text() -> Option<String> {
    String::from_utf8(unsafe { extism::load_input() }).ok()
}

fn output(ctx: Ctx, bytes: TypedArray<u8>) -> rquickjs::Result<()> {
    block(&ctx, view(&bytes)).map(Memory::set_output)
}

fn output_text(ctx: Ctx, text: String) -> rquickjs::Result<()> {
    block(&ctx, text.as_bytes()).map(Memory::set_output)
}

fn get_var(ctx: Ctx, name: String) -> rquickjs::Result<Option<TypedArray<u8>>> {
    let found: Option<Vec<u8>> = var::get(name).map_err(|error| refused(&ctx, error))?;
    found.map(|bytes| TypedArray::new(ctx, bytes)).transpose()
}

fn set_var(ctx: Ctx, name: String, bytes: Opt<TypedArray<u8>>) -> rquickjs::Result<()> {
    match bytes.0 {
        Some(bytes) => var::set(name, view(&bytes)),
        None => var::remove(name),
    }
    .map_err(|error| refused(&ctx, error))
}

/// @param about - Extism's description of a request, as JSON.
fn request<'js>(ctx: Ctx<'js>, about: String, body: Opt<TypedArray<'js, u8>>) -> rquickjs::Result<Object<'js>> {
    let about = block(&ctx, about.as_bytes())?;
    let body = body.0.map(|bytes| block(&ctx, view(&bytes))).transpose()?;
    let at = unsafe { extism::http_request(about.offset(), body.as_ref().map_or(0, Memory::offset)) };
    let status = unsafe { extism::http_status_code() };
    let headers = Memory::find(unsafe { extism::http_headers() });
    let received = Memory::find(at).map(|block| block.to_vec()).unwrap_or_default();
    let response = Object::new(ctx.clone())?;
    response.set("status", status)?;
    response.set("headers", headers.map(|text| String::from_utf8_lossy(&text.to_vec()).into_owned()))?;
    response.set("body", TypedArray::new(ctx, received)?)?;
    Ok(response)
}

fn allocate(ctx: Ctx, bytes: TypedArray<u8>) -> rquickjs::Result<f64> {
    block(&ctx, view(&bytes)).map(|block| block.offset() as f64)
}

fn read(ctx: Ctx, at: f64) -> rquickjs::Result<TypedArray<u8>> {
    TypedArray::new(ctx, Memory::find(at as u64).map(|block| block.to_vec()).unwrap_or_default())
}

/// @param level - From 0, `trace`, to 4, `error`.
fn log(ctx: Ctx, level: u32, text: String) -> rquickjs::Result<()> {
    let levels = [LogLevel::Trace, LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error];
    let text = block(&ctx, text.as_bytes())?;
    text.log(levels[level.min(4) as usize]);
    text.free();
    Ok(())
}

/// None if it must be UTF-8 and is not.
fn decode(bytes: TypedArray<u8>, must_be_valid: bool) -> Option<String> {
    if must_be_valid {
        return String::from_utf8(view(&bytes).to_vec()).ok();
    }
    Some(String::from_utf8_lossy(view(&bytes)).into_owned())
}

/// @param name - Of the hash, as in the Web Cryptography API.
fn digest<'js>(ctx: Ctx<'js>, name: String, bytes: TypedArray<'js, u8>) -> rquickjs::Result<TypedArray<'js, u8>> {
    let bytes = view(&bytes);
    let hash = match name.as_str() {
        "SHA-1" => Sha1::digest(bytes).to_vec(),
        "SHA-256" => Sha256::digest(bytes).to_vec(),
        "SHA-384" => Sha384::digest(bytes).to_vec(),
        _ => Sha512::digest(bytes).to_vec(),
    };
    TypedArray::new(ctx, hash)
}

fn random_bytes(ctx: Ctx, length: usize) -> rquickjs::Result<TypedArray<u8>> {
    let mut bytes = vec![0; length];
    clock::fill(&mut bytes);
    TypedArray::new(ctx, bytes)
}

fn block(ctx: &Ctx, bytes: &[u8]) -> rquickjs::Result<Memory> {
    Memory::from_bytes(bytes).map_err(|error| refused(ctx, error))
}

fn refused(ctx: &Ctx, error: extism_pdk::Error) -> rquickjs::Error {
    Exception::throw_message(ctx, &error.to_string())
}

pub fn view<'a>(bytes: &'a TypedArray<u8>) -> &'a [u8] {
    // No script, which could detach or change them, runs meanwhile.
    unsafe { bytes.as_bytes() }.unwrap_or_default()
}
