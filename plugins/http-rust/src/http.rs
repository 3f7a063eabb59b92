//! wasm-serve's `http` contract: copy this file into your plug-in.

#![allow(dead_code)] // a plug-in need not use all of it

use base64::{engine::general_purpose::STANDARD, Engine};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A request. Names of headers are in lower case.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub method: String,
    /// As sent, with the query.
    pub url: String,
    /// As sent, without it.
    pub path: String,
    /// What the route's URL names; `*` is what a wildcard stands for.
    pub params: BTreeMap<String, String>,
    pub query: BTreeMap<String, Values>,
    pub headers: BTreeMap<String, Values>,
    pub remote_address: String,
    pub request_id: String,
    body: Option<String>,
    body_base64: Option<String>,
}

/// What was sent once or several times.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Values {
    One(String),
    Several(Vec<String>),
}

impl Values {
    pub fn first(&self) -> Option<&str> {
        match self {
            Values::One(value) => Some(value),
            Values::Several(values) => values.first().map(String::as_str),
        }
    }
}

impl Request {
    /// The first value of a query parameter.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.get(name)?.first()
    }

    /// The first value of a header; the name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.first()
    }

    /// The body's bytes, whatever they are.
    pub fn body(&self) -> Vec<u8> {
        match &self.body_base64 {
            Some(text) => STANDARD.decode(text).unwrap_or_default(),
            None => self.body.clone().unwrap_or_default().into_bytes(),
        }
    }
}

/// An answer, built step by step.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    status: u16,
    headers: BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

impl Response {
    /// No body; status from 200 to 599.
    pub fn new(status: u16) -> Self {
        Response { status, headers: BTreeMap::new(), body: None, body_base64: None }
    }

    /// Adds a header; one that is there already is then there twice.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.entry(name.into()).or_default().push(value.into());
        self
    }

    pub fn text(mut self, text: &str) -> Self {
        self.body = Some(text.into());
        self
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.body_base64 = Some(STANDARD.encode(bytes));
        self
    }

    /// JSON. A string is sent as it stands in JSON, with its quotes.
    pub fn json(self, value: impl Serialize) -> Result<Self, serde_json::Error> {
        let text = serde_json::to_string(&value)?;
        Ok(self.text(&text).header("content-type", "application/json"))
    }
}
