mod stream;

use extism_pdk::{config, plugin_fn, FnResult, Json};
use memchr::{memchr, memmem::Finder, memrchr};
use serde_json::{json, Value};
use sha2::{Digest, Sha256};

/// Answers with the SHA-256 and the size of an upload of any size.
#[plugin_fn]
pub fn hash() -> FnResult<String> {
    let mut digest = Sha256::new();
    let mut bytes = 0;
    while let Some(piece) = stream::read()? {
        digest.update(&piece);
        bytes += piece.len();
    }
    Ok(format!("{:x} {bytes}\n", digest.finalize()))
}

/// Passes on the lines of a CSV file that have the text of the config `keep`, and its first line.
#[plugin_fn]
pub fn filter() -> FnResult<()> {
    let keep = config::get("keep")?.unwrap_or_default();
    let keep = Finder::new(keep.as_bytes());
    stream::start(r#"{"headers":{"content-type":"text/csv"},"trailers":["x-lines"]}"#)?;
    let mut lines = 0;
    let mut rest = Vec::new();
    while let Some(piece) = stream::read()? {
        rest.extend_from_slice(&piece);
        let end = memrchr(b'\n', &rest).map_or(0, |at| at + 1);
        lines += pass_on(&rest[..end], &keep, lines == 0)?;
        rest.drain(..end);
    }
    lines += pass_on(&rest, &keep, lines == 0)?;
    stream::trailers(&format!(r#"{{"x-lines":"{lines}"}}"#))?;
    Ok(())
}

/// Sends those lines of a piece at once: a call of the host for each line would take longer than all else.
fn pass_on(piece: &[u8], keep: &Finder, is_first: bool) -> Result<usize, stream::Problem> {
    let mut kept = Vec::with_capacity(piece.len());
    let mut copied = 0; // successive lines are copied together
    let mut lines = 0;
    let mut start = 0;
    while start < piece.len() {
        let end = memchr(b'\n', &piece[start..]).map_or(piece.len(), |at| start + at + 1);
        if (is_first && start == 0) || keep.find(&piece[start..end]).is_some() {
            lines += 1;
        } else {
            kept.extend_from_slice(&piece[copied..start]);
            copied = end;
        }
        start = end;
    }
    kept.extend_from_slice(&piece[copied..]);
    stream::write(&kept)?;
    Ok(lines)
}

/// Sends a number every `interval` milliseconds (a config), up to 10, until the client has gone.
#[plugin_fn]
pub fn count() -> FnResult<()> {
    let interval = config::get("interval")?.and_then(|text| text.parse().ok()).unwrap_or(1_000);
    for number in 1..=10 {
        if stream::event(&format!(r#"{{"event":"count","id":"{number}","data":{number}}}"#)).is_err() {
            return Ok(()); // the client has gone
        }
        let _ = stream::pause(interval);
    }
    Ok(())
}

/// Passes requests on to the server of the config `upstream`, and passes its answers back in capitals.
#[plugin_fn]
pub fn proxy(Json(request): Json<Value>) -> FnResult<()> {
    let upstream = config::get("upstream")?.unwrap_or_default();
    let path = request["url"].as_str().unwrap_or("/");
    let content_type = request["headers"]["content-type"].as_str().unwrap_or("text/plain");
    let head = json!({
        "method": request["method"],
        "url": format!("{upstream}{path}"),
        "headers": { "content-type": content_type },
        "redirect": "manual",
    });
    let mut is_started = false;
    match pass(&head, &mut is_started) {
        // Before the start, the client can get a proper answer.
        Err(problem) if !is_started && problem != stream::Problem::Gone => {
            Ok(stream::start(r#"{"status":502}"#)?)
        }
        passed => Ok(passed?),
    }
}

fn pass(head: &Value, is_started: &mut bool) -> Result<(), stream::Problem> {
    let upstream = stream::Request::open(&head.to_string())?;
    let mut pass_back = || {
        if !*is_started {
            stream::start(&upstream.response()?)?;
            *is_started = true;
        }
        let piece = upstream.read()?;
        stream::write(&piece.as_deref().unwrap_or_default().to_ascii_uppercase())?;
        Ok(piece.is_some())
    };
    while let Some(piece) = stream::read()? {
        // A server may answer while it reads, or without reading all.
        while !upstream.write(&piece)? {
            if !pass_back()? {
                return Ok(());
            }
        }
    }
    upstream.end()?;
    while pass_back()? {}
    Ok(())
}
