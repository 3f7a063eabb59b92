mod socket;

use extism_pdk::{plugin_fn, FnResult};
use socket::Message;

/// Adds up the numbers that a client sends, and answers each with the sum so far. `stop` closes the connection.
#[plugin_fn]
pub fn sum() -> FnResult<()> {
    let mut sum: i64 = 0;
    while let Some(message) = socket::receive()? {
        match message {
            Message::Text(text) if text == "stop" => socket::close(1000, &format!("the sum is {sum}"))?,
            Message::Text(text) => match text.trim().parse::<i64>() {
                Ok(number) => {
                    sum = sum.wrapping_add(number);
                    socket::send_text(&sum.to_string())?;
                }
                Err(_) => socket::send_text("not a number")?,
            },
            Message::Binary(_) => socket::close(4000, "send numbers as text")?,
        }
    }
    Ok(())
}

/// Counts down from 3, a number every 100 ms, and closes the connection.
#[plugin_fn]
pub fn countdown() -> FnResult<()> {
    for number in (1..=3).rev() {
        socket::send_text(&number.to_string())?;
        if !socket::pause(100) {
            break; // the client has gone
        }
    }
    Ok(())
}
