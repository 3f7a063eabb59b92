//! Three ways for a call to end: an answer, an error that the guest means, and a bug.

use extism_pdk::{error, plugin_fn, Error, FnResult};
use std::panic;

/// The median of the numbers in the input. Text that is no number is refused, which is an error and no bug.
#[plugin_fn]
pub fn median(text: String) -> FnResult<String> {
    // Else the log would say only that the guest trapped, and where.
    panic::set_hook(Box::new(|info| error!("{info}")));
    Ok(middle(numbers(&text)?).to_string())
}

fn numbers(text: &str) -> Result<Vec<f64>, Error> {
    text.split_whitespace()
        .map(|word| word.parse().map_err(|_| Error::msg(format!("{word} is no number"))))
        .collect()
}

/// The bug: no numbers have no middle.
#[inline(never)]
fn middle(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let half = numbers.len() / 2;
    if numbers.len() % 2 == 1 {
        numbers[half]
    } else {
        (numbers[half - 1] + numbers[half]) / 2.0
    }
}
