use extism_pdk::{http, plugin_fn, Error, FnResult, HttpRequest, Json};

#[derive(serde::Serialize)]
struct Page {
    status: u16,
    title: Option<String>,
}

/// Fetches the page whose URL the input is, and answers with its title.
#[plugin_fn]
pub fn page_title(url: String) -> FnResult<Json<Page>> {
    let request = HttpRequest::new(url.trim()).with_header("accept", "text/html");
    let response = http::request::<()>(&request, None)?;
    let body = response.body();
    let text = String::from_utf8_lossy(&body);
    // With `--http-errors status` a failure is status 0, and the reason is the body.
    if response.status_code() == 0 {
        return Err(Error::msg(text.into_owned()).into());
    }
    Ok(Json(Page { status: response.status_code(), title: title(&text) }))
}

/// What stands in the first title element, with single spaces.
fn title(html: &str) -> Option<String> {
    let lower = html.to_ascii_lowercase(); // as long as `html`, byte for byte
    let tag = lower.find("<title")?;
    let begin = tag + lower[tag..].find('>')? + 1;
    let end = begin + lower[begin..].find("</title")?;
    Some(html[begin..end].split_whitespace().collect::<Vec<_>>().join(" "))
}
