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
    fn http_open(request: u64) -> i64;
    fn http_write(request: i64, block: u64) -> i64;
    fn http_response(request: i64) -> i64;
    fn http_read(request: i64, max: u64) -> i64;
    fn http_close(request: i64) -> i64;
}

/// Why an operation failed. `docs/write/streams.md` lists the codes.
#[derive(Debug, PartialEq)]
pub enum Problem {
    /// The client has gone, or the time of the exchange is over: end the call.
    Gone,
    /// Not now: twice, before the start, or after the trailers.
    Order,
    /// The host or address of a request is not allowed.
    Forbidden,
    Invalid,
    TooLarge,
    /// Too many requests are open.
    Full,
    /// The guest was not called by an HTTP request.
    Unavailable,
    /// The server of a request cannot be reached, or broke off.
    Failed,
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error::msg(format!("the stream failed: {problem:?}"))
    }
}

/// The next piece of the request's body; `None` at its end.
pub fn read() -> Result<Option<Vec<u8>>, Problem> {
    match check(unsafe { request_read(262_144) })? {
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

/// A request to another server. It is closed when it is dropped.
pub struct Request(i64);

impl Request {
    /// `json` is `{"url":"https://example.com/","method":"PUT","headers":{"x-a":"1"}}`.
    pub fn open(json: &str) -> Result<Request, Problem> {
        block_code(json.as_bytes(), |offset| unsafe { http_open(offset) }).map(|handle| Request(handle as i64))
    }

    /// Sends a piece of the body, of up to 256 KiB. Waits while the server reads more slowly. `false`: nothing was sent, because
    /// the answer has to be read first.
    pub fn write(&self, piece: &[u8]) -> Result<bool, Problem> {
        if piece.is_empty() {
            return Ok(true);
        }
        Ok(block_code(piece, |offset| unsafe { http_write(self.0, offset) })? == 0)
    }

    /// Ends the body. A wait for the answer does so, too.
    pub fn end(&self) -> Result<(), Problem> {
        check(unsafe { http_write(self.0, 0) }).map(drop)
    }

    /// Status and headers of the answer, as JSON that `start` takes.
    pub fn response(&self) -> Result<String, Problem> {
        let head = take(unsafe { http_response(self.0) })?;
        Ok(String::from_utf8(head.unwrap_or_default()).unwrap_or_default())
    }

    /// The next piece of the answer; `None` at its end.
    pub fn read(&self) -> Result<Option<Vec<u8>>, Problem> {
        take(unsafe { http_read(self.0, 262_144) })
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        unsafe { http_close(self.0) };
    }
}

/// The bytes of a block, which is freed.
fn take(code: i64) -> Result<Option<Vec<u8>>, Problem> {
    let block = match check(code)? {
        0 => None,
        offset => Memory::find(offset),
    };
    Ok(block.map(|block| {
        let bytes = block.to_vec();
        block.free();
        bytes
    }))
}

fn with_block(bytes: &[u8], run: impl Fn(u64) -> i64) -> Result<(), Problem> {
    block_code(bytes, run).map(drop)
}

fn block_code(bytes: &[u8], run: impl Fn(u64) -> i64) -> Result<u64, Problem> {
    let block = Memory::from_bytes(bytes).map_err(|_| Problem::TooLarge)?;
    let code = run(block.offset());
    block.free();
    check(code)
}

fn check(code: i64) -> Result<u64, Problem> {
    match code {
        -1 => Err(Problem::Gone),
        -2 => Err(Problem::Order),
        -3 => Err(Problem::Forbidden),
        -4 => Err(Problem::Invalid),
        -5 => Err(Problem::TooLarge),
        -6 => Err(Problem::Full),
        -8 => Err(Problem::Failed),
        code if code < 0 => Err(Problem::Unavailable),
        code => Ok(code as u64),
    }
}
