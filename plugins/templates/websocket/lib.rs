mod socket;

use extism_pdk::{plugin_fn, FnResult};
use socket::Message;

/// Adds up the numbers that a client sends, and answers each with the sum so far. It is called for each connection.
#[plugin_fn]
pub fn sum() -> FnResult<()> {
    let mut sum = 0.0;
    while let Some(message) = socket::receive()? {
        let number = match message {
            Message::Text(text) => text.trim().parse::<f64>().ok(),
            Message::Binary(_) => None,
        };
        sum += number.unwrap_or_default();
        socket::send_text(&number.map_or("not a number".into(), |_| sum.to_string()))?;
    }
    Ok(())
}
