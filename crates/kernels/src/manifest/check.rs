//! From the TOML as written to checked builds.

use super::raw::{
    OneOrMany, RawArg, RawBuffer, RawBuild, RawFile, RawInit, RawInitTable, RawLaunch, RawVariant, Scalar,
};
use super::{
    Arg, ArgSource, Buffer, Build, Code, Content, Init, Launch, Layout, MAX_BYTES, MAX_ITEMS, Manifest, ManifestError,
    Rule, SCHEMA, ScalarType, Variant,
};
use crate::expr::{self, Expr};
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

pub(super) fn manifest(file: &str, text: &str) -> Result<Manifest, ManifestError> {
    let source = Source { file, text };
    if text.len() > MAX_BYTES {
        return Err(source.error(0, format!("a manifest has at most {MAX_BYTES} bytes, this one has {}", text.len())));
    }
    let raw: RawFile = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        source.error(at, error.message().trim().replace('\n', " "))
    })?;
    match &raw.schema {
        Some(schema) if schema.as_ref() == SCHEMA => {}
        Some(schema) => {
            let found = format!("schema \"{}\" is not known; this version reads \"{SCHEMA}\"", schema.as_ref());
            return Err(source.error(schema.span().start, found));
        }
        None => return Err(source.error(0, format!("the key schema is missing: schema = \"{SCHEMA}\""))),
    }
    if raw.build.is_empty() {
        return Err(source.error(0, "there is no [[build]]"));
    }
    source.few(0, "[[build]]", raw.build.len())?;
    let mut names = BTreeSet::new();
    let mut builds = Vec::with_capacity(raw.build.len());
    for build in &raw.build {
        let build = source.build(build)?;
        if !names.insert(build.name.clone()) {
            let message = format!("build \"{}\": another build of this file has this name", build.name);
            return Err(ManifestError { file: file.to_owned(), line: build.line, message });
        }
        builds.push(build);
    }
    Ok(Manifest { file: file.to_owned(), builds })
}

struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
    }

    fn error(&self, at: usize, message: impl Into<String>) -> ManifestError {
        ManifestError { file: self.file.to_owned(), line: self.line(at), message: message.into() }
    }

    fn few(&self, at: usize, what: &str, count: usize) -> Result<(), ManifestError> {
        if count > MAX_ITEMS {
            return Err(self.error(at, format!("{what}: {count} of them; at most {MAX_ITEMS} are taken")));
        }
        Ok(())
    }

    fn rule(&self, place: &str, raw: &Spanned<Scalar>) -> Result<Rule, ManifestError> {
        self.rule_at(place, raw.span().start, &raw.as_ref().0)
    }

    fn rule_at(&self, place: &str, at: usize, text: &str) -> Result<Rule, ManifestError> {
        let expr = Expr::parse(text).map_err(|error| self.error(at, format!("{place}: in \"{text}\", {error}")))?;
        Ok(Rule { expr, place: place.to_owned(), line: self.line(at) })
    }

    fn rules(&self, place: &str, raw: &[Spanned<Scalar>]) -> Result<Vec<Rule>, ManifestError> {
        raw.iter().enumerate().map(|(index, rule)| self.rule(&format!("{place}: when[{index}]"), rule)).collect()
    }

    fn name(&self, place: &str, raw: &Spanned<String>) -> Result<String, ManifestError> {
        let name = raw.as_ref();
        if !expr::is_name(name) {
            let message = format!("{place}: \"{name}\" is no name; letters, digits and _ make one");
            return Err(self.error(raw.span().start, message));
        }
        Ok(name.clone())
    }

    fn build(&self, raw: &Spanned<RawBuild>) -> Result<Build, ManifestError> {
        let at = raw.span().start;
        let RawBuild { source, file, targets, dtypes, when, variant, buffer, launch, .. } = raw.as_ref();
        let name = self.name("build", &raw.as_ref().name)?;
        let place = format!("build \"{name}\"");
        let family = self.name(&format!("{place}: family"), &raw.as_ref().family)?;
        let code = match (source, file) {
            (Some(source), None) => {
                let path = self.path(&format!("{place}: source"), source)?;
                Code::Source { path, defines: self.defines(&place, raw.as_ref())? }
            }
            (None, Some(_)) if !raw.as_ref().defines.is_empty() => {
                return Err(self.error(at, format!("{place}: defines go with source, not with file")));
            }
            (None, Some(file)) => Code::File(self.path(&format!("{place}: file"), file)?),
            _ => return Err(self.error(at, format!("{place}: one of source and file is needed"))),
        };
        if launch.is_empty() {
            return Err(self.error(at, format!("{place}: there is no [[build.launch]]")));
        }
        for (what, count) in [("[[build.launch]]", launch.len()), ("[[build.buffer]]", buffer.len())] {
            self.few(at, &format!("{place}: {what}"), count)?;
        }
        let variants = self.variants(&place, variant)?;
        let buffers = self.buffers(&place, buffer)?;
        let launches: Vec<Launch> = launch
            .iter()
            .enumerate()
            .map(|(index, launch)| self.launch(&format!("{place}: launch {}", index + 1), launch))
            .collect::<Result<_, _>>()?;
        if variants.iter().any(|variant| variant.name.is_empty())
            && let Some(launch) = launches.iter().find(|launch| launch.kernel.contains("{variant}"))
        {
            let message = format!("{place}: kernel \"{}\" names a variant, but there is none", launch.kernel);
            return Err(ManifestError { file: self.file.to_owned(), line: launch.line, message });
        }
        Ok(Build {
            family,
            code,
            targets: self.targets(&place, targets)?,
            dtypes: self.dtypes(&place, dtypes)?,
            when: self.rules(&place, when)?,
            priority: raw.as_ref().priority,
            variants,
            buffers,
            launches,
            doc: raw.as_ref().doc.clone(),
            line: self.line(raw.as_ref().name.span().start),
            name,
        })
    }

    /// Relative, below the manifest, `/`-separated.
    fn path(&self, place: &str, raw: &Spanned<String>) -> Result<String, ManifestError> {
        let path = raw.as_ref();
        let inside = !path.is_empty()
            && !path.contains(['\\', ':', '\0'])
            && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        if inside {
            return Ok(path.clone());
        }
        let message = format!("{place}: \"{path}\" must be a path below the folder of this file, parted by /");
        Err(self.error(raw.span().start, message))
    }

    fn defines(&self, place: &str, raw: &RawBuild) -> Result<BTreeMap<String, String>, ManifestError> {
        let mut defines = BTreeMap::new();
        for (name, value) in &raw.defines {
            if !expr::is_name(name) {
                let message = format!("{place}: defines: \"{name}\" is no macro name");
                return Err(self.error(value.span().start, message));
            }
            defines.insert(name.clone(), value.as_ref().0.clone());
        }
        Ok(defines)
    }

    fn targets(&self, place: &str, raw: &Spanned<Vec<Spanned<String>>>) -> Result<Vec<String>, ManifestError> {
        let mut targets = Vec::new();
        for target in raw.as_ref() {
            let name = target.as_ref();
            let digits = name.strip_prefix("gfx").unwrap_or_default();
            let known = (3..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !known || targets.contains(name) {
                let message =
                    format!("{place}: targets: \"{name}\" is no architecture such as gfx942, or stands twice");
                return Err(self.error(target.span().start, message));
            }
            targets.push(name.clone());
        }
        if targets.is_empty() {
            return Err(self.error(raw.span().start, format!("{place}: targets: at least one architecture is needed")));
        }
        Ok(targets)
    }

    fn dtypes(
        &self,
        place: &str,
        raw: &BTreeMap<String, Spanned<OneOrMany>>,
    ) -> Result<BTreeMap<String, Vec<String>>, ManifestError> {
        let mut dtypes = BTreeMap::new();
        for (role, wanted) in raw {
            let names = match wanted.as_ref() {
                OneOrMany::One(name) => vec![name.clone()],
                OneOrMany::Many(names) => names.clone(),
            };
            if names.is_empty() || !names.iter().all(|name| expr::is_name(name)) {
                let message = format!("{place}: dtypes: {role}: the name of a dtype, or a list of names, is needed");
                return Err(self.error(wanted.span().start, message));
            }
            dtypes.insert(role.clone(), names);
        }
        Ok(dtypes)
    }

    fn variants(&self, place: &str, raw: &[Spanned<RawVariant>]) -> Result<Vec<Variant>, ManifestError> {
        if raw.is_empty() {
            return Ok(vec![Variant::default()]);
        }
        let mut variants: Vec<Variant> = Vec::new();
        for variant in raw {
            let RawVariant { when, r#const, doc, .. } = variant.as_ref();
            let name = self.name(&format!("{place}: variant"), &variant.as_ref().name)?;
            let at = variant.as_ref().name.span().start;
            let place = format!("{place}: variant \"{name}\"");
            if variants.iter().any(|known| known.name == name) {
                return Err(self.error(at, format!("{place}: another variant of this build has this name")));
            }
            let mut constants = BTreeMap::new();
            for (constant, value) in r#const {
                if !expr::is_name(constant) || expr::is_reserved(constant) {
                    let message = format!("{place}: const: \"{constant}\" is no name that can be given");
                    return Err(self.error(value.span().start, message));
                }
                constants.insert(constant.clone(), i128::from(*value.as_ref()));
            }
            variants.push(Variant { when: self.rules(&place, when)?, name, constants, doc: doc.clone() });
        }
        Ok(variants)
    }

    fn buffers(&self, place: &str, raw: &[Spanned<RawBuffer>]) -> Result<Vec<Buffer>, ManifestError> {
        let mut buffers: Vec<Buffer> = Vec::new();
        for buffer in raw {
            let name = self.name(&format!("{place}: buffer"), &buffer.as_ref().name)?;
            let at = buffer.as_ref().name.span().start;
            let place = format!("{place}: buffer \"{name}\"");
            if buffers.iter().any(|known| known.name == name) {
                return Err(self.error(at, format!("{place}: another buffer of this build has this name")));
            }
            let RawBuffer { bytes, init, zero_before, pointers, when, .. } = buffer.as_ref();
            let content = match (bytes, pointers) {
                (Some(bytes), None) => Content::Bytes {
                    bytes: self.rule(&format!("{place}: bytes"), bytes)?,
                    init: match init {
                        None => Init::Uninitialised,
                        Some(init) => self.init(&format!("{place}: init"), init)?,
                    },
                },
                (None, Some(pointers)) if init.is_none() && !zero_before => {
                    if pointers.as_ref().is_empty() {
                        return Err(self.error(at, format!("{place}: pointers: at least one name is needed")));
                    }
                    self.few(at, &format!("{place}: pointers"), pointers.as_ref().len())?;
                    let names = pointers.as_ref().iter();
                    let names = names.map(|name| self.name(&format!("{place}: pointers"), name));
                    let names = names.collect::<Result<Vec<_>, _>>()?;
                    if names.contains(&name) {
                        return Err(self.error(at, format!("{place}: a table of pointers cannot hold its own address")));
                    }
                    Content::Pointers(names)
                }
                (None, Some(_)) => {
                    let message = format!("{place}: a table of pointers has neither init nor zero_before");
                    return Err(self.error(at, message));
                }
                _ => return Err(self.error(at, format!("{place}: one of bytes and pointers is needed"))),
            };
            let when = self.rules(&place, when)?;
            buffers.push(Buffer { name, content, zero_before: *zero_before, when, line: self.line(at) });
        }
        Ok(buffers)
    }

    fn init(&self, place: &str, raw: &Spanned<RawInit>) -> Result<Init, ManifestError> {
        let at = raw.span().start;
        let rule = |text: &Scalar| self.rule_at(place, at, &text.0);
        let key = |key: &str| -> Result<String, ManifestError> {
            if expr::is_name(key) {
                return Ok(key.to_owned());
            }
            Err(self.error(at, format!("{place}: \"{key}\" is no shape key")))
        };
        let one = format!(
            "{place}: \"zero\", \"poison\", \"iota_u32\" or one of {{ fill_u32 }}, {{ fill_f32 }}, {{ values_u32 }}, \
             {{ list_u32 }}, {{ prefix_sum_u32 }}, {{ file }} is needed"
        );
        let table = match raw.as_ref() {
            RawInit::Word(word) => {
                return match word.as_str() {
                    "zero" => Ok(Init::Zero),
                    "poison" => Ok(Init::Poison),
                    "iota_u32" => Ok(Init::IotaU32),
                    _ => Err(self.error(at, one)),
                };
            }
            RawInit::Table(table) => table,
        };
        let RawInitTable { fill_u32, fill_f32, values_u32, list_u32, prefix_sum_u32, each, file } = table;
        let given = [
            fill_u32.is_some(),
            fill_f32.is_some(),
            values_u32.is_some(),
            list_u32.is_some(),
            prefix_sum_u32.is_some(),
            file.is_some(),
        ];
        let of_list = list_u32.is_some() || prefix_sum_u32.is_some();
        if given.into_iter().filter(|given| *given).count() != 1 || (each.is_some() && !of_list) {
            return Err(self.error(at, one));
        }
        let each = each.as_ref().map(rule).transpose()?;
        if let Some(value) = fill_u32 {
            Ok(Init::FillU32(rule(value)?))
        } else if let Some(value) = fill_f32 {
            Ok(Init::FillF32(rule(value)?))
        } else if let Some(values) = values_u32 {
            self.few(at, place, values.len())?;
            Ok(Init::ValuesU32(values.iter().map(rule).collect::<Result<_, _>>()?))
        } else if let Some(list) = list_u32 {
            Ok(Init::ListU32 { key: key(list)?, each })
        } else if let Some(list) = prefix_sum_u32 {
            Ok(Init::PrefixSumU32 { key: key(list)?, each })
        } else if let Some(file) = file {
            Ok(Init::File(self.path(place, &Spanned::new(raw.span(), file.clone()))?))
        } else {
            Err(self.error(at, one))
        }
    }

    fn launch(&self, place: &str, raw: &Spanned<RawLaunch>) -> Result<Launch, ManifestError> {
        let RawLaunch { kernel, when, setup, grid, block, cluster, lds, layout, kernarg_size, args } = raw.as_ref();
        let at = kernel.span().start;
        let name = kernel.as_ref();
        if name.is_empty() || name.len() > 4096 || name.ends_with(".kd") || name.contains(char::is_whitespace) {
            let message =
                format!("{place}: kernel: \"{name}\" is no symbol; write it without .kd, or * for the only one");
            return Err(self.error(at, message));
        }
        let layout = match layout.as_ref().map(|layout| (layout.span().start, layout.as_ref().as_str())) {
            None | Some((_, "natural")) => Layout::Natural,
            Some((_, "slot16")) => Layout::Slot16,
            Some((_, "packed")) => Layout::Packed,
            Some((at, other)) => {
                let message = format!("{place}: layout: \"{other}\" is none of natural, slot16 and packed");
                return Err(self.error(at, message));
            }
        };
        let kernarg_size = match kernarg_size {
            None => None,
            Some(size) => Some(self.small(&format!("{place}: kernarg_size"), size, crate::kernarg::MAX_SIZE)?),
        };
        self.few(at, &format!("{place}: args"), args.len())?;
        let args = args
            .iter()
            .enumerate()
            .map(|(index, arg)| self.arg(&format!("{place}: args[{index}]"), arg))
            .collect::<Result<_, _>>()?;
        let lds = match lds {
            Some(lds) => self.rule(&format!("{place}: lds"), lds)?,
            None => self.rule_at(&format!("{place}: lds"), at, "0")?,
        };
        Ok(Launch {
            kernel: name.clone(),
            when: self.rules(place, when)?,
            setup: *setup,
            grid: self.three(&format!("{place}: grid"), grid)?,
            block: self.three(&format!("{place}: block"), block)?,
            cluster: cluster.as_ref().map(|cluster| self.three(&format!("{place}: cluster"), cluster)).transpose()?,
            lds,
            layout,
            kernarg_size,
            args,
            line: self.line(at),
        })
    }

    fn small(&self, place: &str, raw: &Spanned<i64>, most: u32) -> Result<u32, ManifestError> {
        u32::try_from(*raw.as_ref()).ok().filter(|value| *value <= most).ok_or_else(|| {
            self.error(raw.span().start, format!("{place}: {} is not between 0 and {most}", raw.as_ref()))
        })
    }

    fn three(&self, place: &str, raw: &Spanned<Vec<Spanned<Scalar>>>) -> Result<[Rule; 3], ManifestError> {
        let [x, y, z] = raw.as_ref().as_slice() else {
            let message = format!("{place}: three sizes (x, y, z) are needed, not {}", raw.as_ref().len());
            return Err(self.error(raw.span().start, message));
        };
        let rule = |index: usize, raw| self.rule(&format!("{place}[{index}]"), raw);
        Ok([rule(0, x)?, rule(1, y)?, rule(2, z)?])
    }

    fn arg(&self, place: &str, raw: &Spanned<RawArg>) -> Result<Arg, ManifestError> {
        let at = raw.span().start;
        let arg = raw.as_ref();
        let scalars = [
            (ScalarType::U8, &arg.u8),
            (ScalarType::U16, &arg.u16),
            (ScalarType::U32, &arg.u32),
            (ScalarType::I32, &arg.i32),
            (ScalarType::U64, &arg.u64),
            (ScalarType::I64, &arg.i64),
            (ScalarType::F32, &arg.f32),
            (ScalarType::F64, &arg.f64),
        ];
        let mut scalars = scalars.into_iter().filter_map(|(kind, value)| value.as_ref().map(|value| (kind, value)));
        let source = match (&arg.ptr, &arg.null, scalars.next(), scalars.next()) {
            (Some(target), None, None, None) => ArgSource::Pointer {
                target: self.name(&format!("{place}: ptr"), target)?,
                offset: arg.offset.as_ref().map(|offset| self.rule(&format!("{place}: offset"), offset)).transpose()?,
                optional: arg.optional,
            },
            (None, Some(null), None, None) if *null.as_ref() => ArgSource::Null,
            (None, None, Some((kind, value)), None) => {
                ArgSource::Scalar(kind, self.rule(&format!("{place}: {}", kind.name()), value)?)
            }
            _ => {
                let message =
                    format!("{place}: one of ptr, null = true, u8, u16, u32, i32, u64, i64, f32 and f64 is needed");
                return Err(self.error(at, message));
            }
        };
        let is_pointer = matches!(source, ArgSource::Pointer { .. });
        if !is_pointer && (arg.offset.is_some() || arg.optional) {
            return Err(self.error(at, format!("{place}: offset and optional go with ptr only")));
        }
        let name = arg.name.clone().unwrap_or_else(|| match &source {
            ArgSource::Pointer { target, .. } => target.clone(),
            ArgSource::Null => "null".to_owned(),
            ArgSource::Scalar(_, rule) => rule.expr.text().to_owned(),
        });
        let offset = arg.at.as_ref().map(|at| self.small(&format!("{place}: at"), at, crate::kernarg::MAX_SIZE));
        Ok(Arg { name, at: offset.transpose()?, source, line: self.line(at) })
    }
}
