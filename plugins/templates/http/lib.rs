mod http;

use extism_pdk::{plugin_fn, FnResult, Json};
use http::{Request, Response};

/// Answers every request: wasm-serve.yaml gives it all methods and URLs.
#[plugin_fn]
pub fn handle(Json(request): Json<Request>) -> FnResult<Json<Response>> {
    Ok(Json(answer(&request)))
}

fn answer(request: &Request) -> Response {
    if request.path != "/" {
        return Response::new(404).text(&format!("There is nothing at {}\n", request.path));
    }
    if request.method != "GET" {
        return Response::new(405).header("allow", "GET");
    }
    let name = request.query("name").unwrap_or("World");
    Response::new(200)
        .header("content-type", "text/html; charset=utf-8")
        .text(&format!("<h1>Hello, {}!</h1>\n", escape_html(name)))
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
