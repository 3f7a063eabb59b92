use extism_pdk::{plugin_fn, FnResult};
use pulldown_cmark::{html, CowStr, Event, Options, Parser, Tag};

/// Renders Markdown (CommonMark with tables, task lists, footnotes and strikethrough) as HTML that can be shown to
/// others: HTML in it becomes text, links and images lead to the web, to mail or to the same site.
#[plugin_fn]
pub fn markdown(text: String) -> FnResult<String> {
    let extensions = Options::ENABLE_TABLES
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH;
    let mut page = String::with_capacity(text.len() * 3 / 2);
    html::push_html(&mut page, Parser::new_ext(&text, extensions).map(harmless));
    Ok(page)
}

fn harmless(event: Event) -> Event {
    match event {
        Event::Html(markup) | Event::InlineHtml(markup) => Event::Text(markup),
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            Event::Start(Tag::Link { link_type, dest_url: harmless_url(dest_url), title, id })
        }
        Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
            Event::Start(Tag::Image { link_type, dest_url: harmless_url(dest_url), title, id })
        }
        other => other,
    }
}

/// The URL, unless it has a scheme that is none of the four: browsers run `javascript:` and others.
fn harmless_url(url: CowStr) -> CowStr {
    // Browsers drop control characters and white space, so `java\tscript:` has a scheme too.
    let bare: String = url.chars().filter(|c| !c.is_control() && !c.is_whitespace()).collect();
    let scheme = match bare.split_once(':') {
        Some((before, _)) if !before.contains(['/', '?', '#']) => before.to_ascii_lowercase(),
        _ => return url,
    };
    if ["http", "https", "mailto", "tel"].contains(&scheme.as_str()) {
        url
    } else {
        "".into()
    }
}
