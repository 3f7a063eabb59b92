//! wasm-serve's streams: copy this file into your plug-in.

#![allow(dead_code)] // a plug-in need not use all of it

use extism_pdk::{Error, Memory};

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
}

/// Why an operation failed. `docs/guide/streams.md` lists the codes.
#[derive(Debug, PartialEq)]
pub enum Problem {
    /// The client has gone, or the time of the exchange is over: end the call.
    Gone,
    /// Not now: twice, before the start, or after the trailers.
    Order,
    Invalid,
    TooLarge,
    /// The guest was not called by an HTTP request.
    Unavailable,
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error::msg(format!("the stream failed: {problem:?}"))
    }
}

/// The next piece of the request's body; `None` at its end.
pub fn read() -> Result<Option<Vec<u8>>, Problem> {
    match check(unsafe { request_read(65_536) })? {
        0 => Ok(None),
        offset => Ok(Memory::find(offset).map(|block| block.to_vec())),
    }
}

/// Starts the answer. `head` is JSON: `{"status":200,"headers":{"content-type":"text/csv"},"trailers":["x-sum"]}`.
pub fn start(head: &str) -> Result<(), Problem> {
    with_block(head.as_bytes(), |offset| unsafe { response_start(offset) })
}

/// Sends bytes, soon. Waits while the client reads more slowly.
pub fn write(bytes: &[u8]) -> Result<(), Problem> {
    with_block(bytes, |offset| unsafe { response_write(offset) })
}

/// Sends now what was written.
pub fn flush() -> Result<(), Problem> {
    check(unsafe { response_flush() }).map(drop)
}

/// Sets the trailers that `start` has announced, as JSON.
pub fn trailers(json: &str) -> Result<(), Problem> {
    with_block(json.as_bytes(), |offset| unsafe { response_trailers(offset) })
}

/// Sends an event: `{"event":"tick","id":"1","data":"text"}`. The first one starts the answer.
pub fn event(json: &str) -> Result<(), Problem> {
    with_block(json.as_bytes(), |offset| unsafe { sse(offset) })
}

/// Waits, without using up the time limit of the call.
pub fn pause(ms: u64) -> Result<(), Problem> {
    check(unsafe { wait(ms) }).map(drop)
}

pub fn is_gone() -> bool {
    unsafe { client_gone() != 0 }
}

fn with_block(bytes: &[u8], run: impl Fn(u64) -> i64) -> Result<(), Problem> {
    let block = Memory::from_bytes(bytes).map_err(|_| Problem::TooLarge)?;
    let code = run(block.offset());
    block.free();
    check(code).map(drop)
}

fn check(code: i64) -> Result<u64, Problem> {
    match code {
        -1 => Err(Problem::Gone),
        -2 => Err(Problem::Order),
        -4 => Err(Problem::Invalid),
        -5 => Err(Problem::TooLarge),
        code if code < 0 => Err(Problem::Unavailable),
        code => Ok(code as u64),
    }
}
