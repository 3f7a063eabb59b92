//! A plug-in for hyper-mcp, version 2 of its interface: two tools and a resource. It sends messages while it works.

use extism_pdk::*;
use serde_json::{json, Value};

#[host_fn]
extern "ExtismHost" {
    fn create_elicitation(input: Json<Value>) -> Json<Value>;
    fn notify_logging_message(input: Json<Value>);
    fn notify_progress(input: Json<Value>);
    fn notify_tool_list_changed();
}

#[plugin_fn]
pub fn list_tools(_: Json<Value>) -> FnResult<Json<Value>> {
    let name = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    Ok(Json(json!({ "tools": [
        { "name": "rust_greet", "description": "Greets a person.", "inputSchema": name },
        { "name": "rust_ask", "description": "Asks the user.", "inputSchema": { "type": "object" } },
    ] })))
}

#[plugin_fn]
pub fn call_tool(Json(input): Json<Value>) -> FnResult<Json<Value>> {
    let request = &input["request"];
    if request["name"] == "rust_ask" {
        let asked = json!({ "message": "Who?", "requestedSchema": { "type": "object", "properties": {} } });
        unsafe { create_elicitation(Json(asked)) }?;
    }
    unsafe { notify_logging_message(Json(json!({ "level": "info", "data": "greeting" }))) }?;
    if let Some(token) = input["context"]["_meta"].get("progressToken") {
        unsafe { notify_progress(Json(json!({ "progressToken": token, "progress": 1.0, "total": 2.0 }))) }?;
    }
    unsafe { notify_tool_list_changed() }?;
    let name = request["arguments"]["name"].as_str().unwrap_or_default();
    Ok(Json(json!({ "content": [{ "type": "text", "text": format!("Hello {name} from Rust") }] })))
}

#[plugin_fn]
pub fn list_resources(_: Json<Value>) -> FnResult<Json<Value>> {
    Ok(Json(json!({ "resources": [{ "uri": "rust://about", "name": "about", "mimeType": "text/plain" }] })))
}

#[plugin_fn]
pub fn read_resource(Json(input): Json<Value>) -> FnResult<Json<Value>> {
    let uri = &input["request"]["uri"];
    Ok(Json(json!({ "contents": [{ "uri": uri, "mimeType": "text/plain", "text": "made in Rust" }] })))
}
