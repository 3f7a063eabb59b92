mod http;

use extism_pdk::{plugin_fn, FnResult, Json};
use http::{Request, Response};
use serde_json::json;

/// Answers all requests of a route such as `/*`.
#[plugin_fn]
pub fn handle(Json(request): Json<Request>) -> FnResult<Json<Response>> {
    let segments: Vec<&str> = request.path.split('/').skip(1).collect();
    let response = match (request.method.as_str(), segments.as_slice()) {
        ("GET" | "HEAD", ["hello", name]) => hello(&request, name)?,
        ("POST", ["echo"]) => echo(&request),
        ("POST", ["login"]) => login(&request),
        _ => Response::new(404).json(json!({ "error": "not found" }))?,
    };
    Ok(Json(response))
}

/// `GET /hello/Bob?greeting=Hi`
fn hello(request: &Request, name: &str) -> FnResult<Response> {
    let greeting = request.query("greeting").unwrap_or("Hello");
    Ok(Response::new(200).json(json!({ "message": format!("🦀 {greeting} {name}") }))?)
}

/// `POST /echo`: the same bytes, as what they were sent.
fn echo(request: &Request) -> Response {
    let kind = request.header("content-type").unwrap_or("application/octet-stream");
    Response::new(200).header("content-type", kind).bytes(&request.body())
}

/// `POST /login` with a name: two cookies, and on to the greeting.
fn login(request: &Request) -> Response {
    let name = String::from_utf8_lossy(&request.body()).replace(|c: char| !c.is_ascii_alphanumeric(), "");
    Response::new(303)
        .header("set-cookie", &format!("user={name}; HttpOnly"))
        .header("set-cookie", "seen=1")
        .header("location", &format!("/hello/{name}"))
}
