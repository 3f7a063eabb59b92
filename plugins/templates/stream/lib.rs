mod stream;

use extism_pdk::{plugin_fn, FnResult};

/// Sends the body back in capitals, piece by piece.
#[plugin_fn]
pub fn capitals() -> FnResult<()> {
    stream::start(r#"{"headers":{"content-type":"text/plain; charset=utf-8"}}"#)?;
    while let Some(piece) = stream::read()? {
        stream::write(&piece.to_ascii_uppercase())?; // an error: the client has gone, and the call ends
    }
    Ok(())
}

/// Counts to three in server-sent events.
#[plugin_fn]
pub fn count() -> FnResult<()> {
    for number in 1..=3 {
        stream::event(&format!(r#"{{"event":"count","id":"{number}","data":{number}}}"#))?;
        stream::pause(100)?;
    }
    Ok(())
}
