//! A validator for the part of JSON Schema that `docs/report.schema.json` uses. An unknown keyword is an error, so that
//! no keyword is silently ignored.

use serde_json::Value;

/// Returns everything in which `value` violates `schema`, with the place of each violation.
pub fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, schema, value, "$", &mut found);
    found
}

/// The schema must describe every field that we write, although readers must tolerate others.
fn check(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    rules(root, schema, value, at, found);
    let known = described(root, schema);
    for name in value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
    {
        if !known.is_empty() && !known.contains(&name.as_str()) {
            found.push(format!("{at}: {name} is not described"));
        }
    }
}

/// Returns the fields that any part of a schema names.
fn described<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s str> {
    let named = schema.get("properties").and_then(Value::as_object);
    let mut names: Vec<&str> = named
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let parts = ["oneOf", "anyOf"]
        .iter()
        .filter_map(|word| schema.get(word));
    for part in parts.flat_map(array).chain(target(root, schema)) {
        names.extend(described(root, part));
    }
    names
}

/// Returns the definition that a schema refers to.
fn target<'s>(root: &'s Value, schema: &Value) -> Option<&'s Value> {
    let path = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
    Some(root.pointer(path).expect("a definition"))
}

fn rules(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let keywords = schema.as_object().expect("a schema is an object");
    for (keyword, rule) in keywords {
        let ok = match keyword.as_str() {
            // Formats are the widths of numbers. Reports also contain read-only fields.
            "$schema" | "$defs" | "title" | "description" | "format" | "readOnly" => true,
            "$ref" => {
                let target = target(root, schema).expect("a definition");
                rules(root, target, value, at, found);
                true
            }
            "oneOf" | "anyOf" => {
                let fits = |option: &&Value| {
                    let mut inner = Vec::new();
                    rules(root, option, value, at, &mut inner);
                    inner.is_empty()
                };
                array(rule).iter().filter(fits).count() == 1
            }
            "type" => match rule {
                Value::Array(types) => types.iter().any(|name| is_type(name, value)),
                name => is_type(name, value),
            },
            "const" => rule == value,
            "enum" => array(rule).contains(value),
            "minimum" => number(value).is_none_or(|n| Some(n) >= number(rule)),
            "exclusiveMinimum" => number(value).is_none_or(|n| Some(n) > number(rule)),
            "minLength" => value
                .as_str()
                .is_none_or(|text| text.len() as u64 >= rule.as_u64().unwrap_or_default()),
            // The only patterns are for dates, which are checked by position.
            "pattern" => value.as_str().is_some_and(is_timestamp),
            "required" => array(rule).iter().all(|name| {
                let is_there = value.get(name.as_str().expect("a name")).is_some();
                if !is_there {
                    found.push(format!("{at}: {name} is missing"));
                }
                is_there
            }),
            "properties" => {
                properties(root, rule, value, at, found);
                true
            }
            "additionalProperties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    check(root, rule, inner, &format!("{at}.{name}"), found);
                }
                true
            }
            "items" => {
                for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, inner, &format!("{at}[{index}]"), found);
                }
                true
            }
            unknown => panic!("the schema uses '{unknown}', which this check does not know"),
        };
        if !ok {
            found.push(format!("{at}: {value} is against {keyword} {rule}"));
        }
    }
}

fn properties(root: &Value, rule: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (name, inner) in value.as_object().into_iter().flatten() {
        if let Some(schema) = rule.get(name) {
            check(root, schema, inner, &format!("{at}.{name}"), found);
        }
    }
}

fn is_type(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("a type's name") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        unknown => panic!("unknown type '{unknown}'"),
    }
}

fn is_timestamp(text: &str) -> bool {
    text.len() == 20
        && text
            .bytes()
            .zip(b"0000-00-00T00:00:00Z")
            .all(|(c, shape)| match shape {
                b'0' => c.is_ascii_digit(),
                other => c == *other,
            })
}

fn array(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}
