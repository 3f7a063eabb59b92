//! wasm-serve's WebSockets: copy this file into your plug-in.

#![allow(dead_code)] // a plug-in need not use all of it

use extism_pdk::{Error, Memory};

#[link(wasm_import_module = "wasm-serve:http")]
extern "C" {
    fn ws_receive() -> i64;
    fn ws_kind() -> i32;
    fn ws_send(block: u64, kind: i32) -> i64;
    fn ws_close(code: i32, reason: u64) -> i64;
    fn wait(ms: u64) -> i64;
}

pub enum Message {
    Text(String),
    Binary(Vec<u8>),
}

/// Why an operation failed. `docs/write/websockets.md` lists the codes.
#[derive(Debug, PartialEq)]
pub enum Problem {
    /// The connection has ended: end the call.
    Gone,
    /// The guest has closed the connection.
    Order,
    Invalid,
    TooLarge,
    /// The call does not serve a connection.
    Unavailable,
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error::msg(format!("the WebSocket failed: {problem:?}"))
    }
}

/// Waits for the next message; `None` at the end of the connection.
pub fn receive() -> Result<Option<Message>, Problem> {
    let offset = match check(unsafe { ws_receive() }) {
        Err(Problem::Gone) => return Ok(None),
        other => other?,
    };
    let bytes = Memory::find(offset).map(|block| block.to_vec()).unwrap_or_default();
    Ok(Some(match unsafe { ws_kind() } {
        1 => Message::Text(String::from_utf8(bytes).map_err(|_| Problem::Invalid)?),
        _ => Message::Binary(bytes),
    }))
}

/// Sends a message. Waits while the client reads more slowly.
pub fn send_text(text: &str) -> Result<(), Problem> {
    send(text.as_bytes(), 1)
}

pub fn send_binary(bytes: &[u8]) -> Result<(), Problem> {
    send(bytes, 2)
}

/// Closes the connection: 1000, 1008, 1011, or a code of your own from 3000 to 4999.
pub fn close(code: i32, reason: &str) -> Result<(), Problem> {
    let block = Memory::from_bytes(reason.as_bytes()).map_err(|_| Problem::TooLarge)?;
    check(unsafe { ws_close(code, block.offset()) }).map(drop)
}

/// Waits, without using up the time limit of the call. `false`: the connection has ended.
pub fn pause(ms: u64) -> bool {
    unsafe { wait(ms) == 0 }
}

fn send(bytes: &[u8], kind: i32) -> Result<(), Problem> {
    let block = Memory::from_bytes(bytes).map_err(|_| Problem::TooLarge)?;
    check(unsafe { ws_send(block.offset(), kind) }).map(drop)
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
