use extism_pdk::{config, plugin_fn, var, FnResult, Json};

#[derive(serde::Serialize)]
struct Report {
    count: u64,
    total: u64,
    vowels: String,
}

/// Counts the vowels of the input, and of all inputs so far.
#[plugin_fn]
pub fn count_vowels(text: String) -> FnResult<Json<Report>> {
    let vowels = config::get("vowels")?.unwrap_or_else(|| "aeiouAEIOU".into());
    let count = text.chars().filter(|letter| vowels.contains(*letter)).count() as u64;
    let total = var::get::<u64>("total")?.unwrap_or(0) + count;
    var::set("total", total)?;
    Ok(Json(Report { count, total, vowels }))
}
