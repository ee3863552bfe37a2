//! Noise on purpose: the little language of `ROCM_EMU_CLOCK`, which turns the exact virtual durations of launches into what a
//! restless device would show, the same way in each run.
//!
//! Items are separated by `;`, `,` or blanks; `docs/emulated-hip.md` has the table of them.

use std::str::FromStr;

/// A factor during a window of virtual time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Throttle {
    at_ns: f64,
    for_ns: f64,
    every_ns: Option<f64>,
    by: f64,
}

/// A factor on some launches in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Burst {
    chance: f64,
    by: f64,
    launches: u64,
}

/// A rare, unbounded factor.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tail {
    chance: f64,
    alpha: f64,
}

/// How durations are changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClockScript {
    scale: Option<f64>,
    cv: f64,
    drift_per_second: f64,
    ramp: Option<(f64, f64)>,
    throttles: Vec<Throttle>,
    burst: Option<Burst>,
    tail: Option<Tail>,
    negative: f64,
    seed: u64,
}

/// Why a text is no script.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "`{item}` is no clock item: {reason}; known are scale=1.1x, cv=1%, drift=0.5%/s, ramp=400ms:1.3x, \
     throttle=at:2s,for:1s,by:1.5x[,every:10s], burst=p:1%,by:2x[,len:5], heavy-tail[=p:1%,alpha:1.5], negative=p:1% and seed=7"
)]
pub struct ClockScriptError {
    /// The item.
    pub item: String,
    /// What is wrong with it.
    pub reason: String,
}

impl FromStr for ClockScript {
    type Err = ClockScriptError;

    fn from_str(text: &str) -> Result<Self, ClockScriptError> {
        let mut items: Vec<(&str, Vec<&str>)> = Vec::new();
        let words = text.split(|c: char| c == ',' || c == ';' || c.is_whitespace()).filter(|word| !word.is_empty());
        for word in words {
            // `name=field` or `name` begins an item, `key:value` goes on with it.
            match word.split_once('=') {
                Some((name, field)) => items.push((name, vec![field])),
                None if word.contains(':') => match items.last_mut() {
                    Some((_, fields)) => fields.push(word),
                    None => items.push(("", vec![word])),
                },
                None => items.push((word, Vec::new())),
            }
        }
        let mut script = Self::default();
        for (name, fields) in &items {
            script.item(name, fields).map_err(|reason| ClockScriptError {
                item: if fields.is_empty() { (*name).to_owned() } else { format!("{name}={}", fields.join(",")) },
                reason,
            })?;
        }
        Ok(script)
    }
}

impl ClockScript {
    fn item(&mut self, name: &str, fields: &[&str]) -> Result<(), String> {
        let one = || match fields {
            [field] => Ok(*field),
            _ => Err("it takes one value".to_owned()),
        };
        match name {
            "scale" => self.scale = Some(factor(one()?)?),
            "cv" => self.cv = percent(one()?)?.min(10.0),
            "drift" => self.drift_per_second = percent(one()?.strip_suffix("/s").ok_or("it is in %/s")?)?,
            "ramp" => {
                let (time, by) = one()?.split_once(':').ok_or("it is a time, a colon and a factor")?;
                self.ramp = Some((nanoseconds(time)?, factor(by)?));
            }
            "throttle" => {
                let keys = Keys::of(fields, &["at", "for", "by", "every"])?;
                let need = |key: &str| keys.get(key).ok_or_else(|| format!("it lacks {key}"));
                self.throttles.push(Throttle {
                    at_ns: nanoseconds(need("at")?)?,
                    for_ns: nanoseconds(need("for")?)?,
                    every_ns: keys.get("every").map(nanoseconds).transpose()?.filter(|every| *every > 0.0),
                    by: factor(need("by")?)?,
                });
            }
            "burst" => {
                let keys = Keys::of(fields, &["p", "by", "len"])?;
                let launches =
                    keys.get("len").map_or(Ok(1), |len| len.parse().map_err(|_| "len is a number".to_owned()))?;
                self.burst = Some(Burst {
                    chance: percent(keys.get("p").ok_or("it lacks p")?)?,
                    by: factor(keys.get("by").ok_or("it lacks by")?)?,
                    launches,
                });
            }
            "heavy-tail" => {
                let keys = Keys::of(fields, &["p", "alpha"])?;
                let alpha = keys.get("alpha").map_or(Ok(1.5), positive)?;
                self.tail = Some(Tail { chance: keys.get("p").map_or(Ok(0.01), percent)?, alpha });
            }
            "negative" => {
                let keys = Keys::of(fields, &["p"])?;
                self.negative = percent(keys.get("p").ok_or("it lacks p")?)?;
            }
            "seed" => self.seed = one()?.parse().map_err(|_| "it is a whole number".to_owned())?,
            _ => return Err("there is no such item".to_owned()),
        }
        Ok(())
    }
}

/// `key:value` fields.
struct Keys<'t>(Vec<(&'t str, &'t str)>);

impl<'t> Keys<'t> {
    fn of(fields: &[&'t str], known: &[&str]) -> Result<Self, String> {
        let pairs = fields.iter().map(|field| match field.split_once(':') {
            Some((key, value)) if known.contains(&key) => Ok((key, value)),
            _ => Err(format!("`{field}` is not one of {} with a colon and a value", known.join(", "))),
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }

    fn get(&self, key: &str) -> Option<&'t str> {
        self.0.iter().find(|(of, _)| *of == key).map(|(_, value)| *value)
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0 && *value <= 1e12);
    value.ok_or_else(|| format!("`{text}` is no positive number"))
}

/// `1.3x` or `1.3`.
fn factor(text: &str) -> Result<f64, String> {
    positive(text.strip_suffix('x').unwrap_or(text)).map(|factor| factor.clamp(1e-3, 1e3))
}

/// `1%` as 0.01; it may be negative, as a drift may be.
fn percent(text: &str) -> Result<f64, String> {
    let digits = text.strip_suffix('%').ok_or_else(|| format!("`{text}` lacks its %"))?;
    let value = digits.parse().ok().filter(|value: &f64| value.is_finite() && value.abs() <= 1e6);
    value.map(|value: f64| value / 100.0).ok_or_else(|| format!("`{text}` is no percentage"))
}

/// `2s`, `400ms`, `10us`, `5ns`.
fn nanoseconds(text: &str) -> Result<f64, String> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let found = units.iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, ns)));
    let (digits, ns) = found.ok_or_else(|| format!("`{text}` has no unit of ns, us, ms or s"))?;
    if digits == "0" { Ok(0.0) } else { positive(digits).map(|value| value * ns) }
}

/// A duration as the script shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// ns that the device was busy.
    pub(crate) ns: u64,
    /// Time stamps are the wrong way round.
    pub(crate) negative: bool,
}

/// A script under way.
#[derive(Debug)]
pub(crate) struct Clock {
    script: ClockScript,
    state: u64,
    burst_left: u64,
}

impl Clock {
    pub(crate) fn new(script: ClockScript) -> Self {
        let state = script.seed ^ 0x9e37_79b9_7f4a_7c15;
        Self { script, state, burst_left: 0 }
    }

    /// Uniform in 0..1 (SplitMix64).
    fn random(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn happens(&mut self, chance: f64) -> bool {
        chance > 0.0 && self.random() < chance
    }

    /// Standard normal (Box-Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.random()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.random()).cos()
    }

    /// What a duration becomes that starts `since_ns` after the clock's start.
    pub(crate) fn show(&mut self, since_ns: u64, duration_ns: f64) -> Shown {
        let t = since_ns as f64;
        let mut factor = self.script.scale.unwrap_or(1.0) * self.steady(t);
        if self.script.cv > 0.0 {
            // Log-normal with mean 1 and this coefficient of variation.
            let variance = (1.0 + self.script.cv * self.script.cv).ln();
            factor *= (variance.sqrt() * self.normal() - variance / 2.0).exp();
        }
        if let Some(burst) = self.script.burst {
            if self.burst_left == 0 && self.happens(burst.chance) {
                self.burst_left = burst.launches;
            }
            if self.burst_left > 0 {
                self.burst_left -= 1;
                factor *= burst.by;
            }
        }
        if let Some(tail) = self.script.tail
            && self.happens(tail.chance)
        {
            // Pareto from 1 on.
            factor *= (1.0 - self.random()).powf(-1.0 / tail.alpha).min(1e4);
        }
        let negative = self.happens(self.script.negative);
        let ns = (duration_ns * factor).clamp(0.0, 1e15).round() as u64;
        Shown { ns, negative }
    }

    /// The factor that depends on time alone.
    fn steady(&self, t: f64) -> f64 {
        let script = &self.script;
        let mut factor = (1.0 + script.drift_per_second * t * 1e-9).clamp(1e-3, 1e3);
        if let Some((until, by)) = script.ramp
            && t < until
        {
            factor *= by + (1.0 - by) * t / until;
        }
        for throttle in &script.throttles {
            let since = t - throttle.at_ns;
            let into = match throttle.every_ns {
                Some(every) if since >= 0.0 => since % every,
                _ => since,
            };
            if (0.0..throttle.for_ns).contains(&into) {
                factor *= throttle.by;
            }
        }
        factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clock(text: &str) -> Clock {
        Clock::new(text.parse().unwrap())
    }

    #[test]
    fn without_items_nothing_changes() {
        let mut clock = clock("");
        assert_eq!(clock.show(5_000_000_000, 1234.4), Shown { ns: 1234, negative: false });
    }

    #[test]
    fn ramp_throttle_and_drift_depend_on_time() {
        let mut ramp = clock("ramp=400ms:1.5x");
        let at = |clock: &mut Clock, ms: u64| clock.show(ms * 1_000_000, 1000.0).ns;
        assert_eq!([0, 200, 400, 900].map(|ms| at(&mut ramp, ms)), [1500, 1250, 1000, 1000]);
        let mut throttle = clock("throttle=at:2s,for:1s,by:1.5x,every:10s;scale=2x");
        assert_eq!([1999, 2000, 2999, 3000, 12500].map(|ms| at(&mut throttle, ms)), [2000, 3000, 3000, 2000, 3000]);
        let mut drift = clock("drift=0.5%/s");
        assert_eq!([0, 1000, 10_000].map(|ms| at(&mut drift, ms)), [1000, 1005, 1050]);
    }

    #[test]
    fn noise_has_the_spread_it_says_and_repeats() {
        let run =
            |text: &str| (0..20_000).map(|_| 0).scan(clock(text), |c, _| Some(c.show(0, 1e6).ns)).collect::<Vec<_>>();
        let samples = run("cv=2%,seed=5");
        assert_eq!(samples, run("cv=2%;seed=5"));
        assert_ne!(samples, run("cv=2%;seed=6"));
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<u64>() as f64 / count;
        let variance = samples.iter().map(|s| (*s as f64 - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // Three standard errors: of the mean cv/sqrt(n), of the deviation cv/sqrt(2n).
        assert!((mean / 1e6 - 1.0).abs() < 3.0 * 0.02 / count.sqrt(), "{mean}");
        assert!((variance.sqrt() / mean - 0.02).abs() < 3.0 * 0.02 / (2.0 * count).sqrt(), "{variance}");
    }

    #[test]
    fn rare_events_are_as_rare_as_they_say() {
        let mut some = clock("negative=p:5%,seed=3");
        let negatives = (0..10_000).filter(|_| some.show(0, 1000.0).negative).count();
        // Binomial: 500 with a deviation of 22.
        assert!((430..570).contains(&negatives), "{negatives}");
        let mut bursts = clock("burst=p:1%,by:2x,len:5");
        let slow: Vec<bool> = (0..5000).map(|_| bursts.show(0, 1000.0).ns == 2000).collect();
        let lengths: Vec<usize> = slow.chunk_by(|a, b| a == b).filter(|run| run[0]).map(<[bool]>::len).collect();
        assert!(lengths.len() > 10 && lengths[..lengths.len() - 1].iter().all(|length| length.is_multiple_of(5)));
        let mut tail = clock("heavy-tail=p:10%,alpha:1");
        let over = (0..10_000).filter(|_| tail.show(0, 1000.0).ns > 4000).count();
        // Of the tenth that is hit, a quarter of a Pareto of shape 1 exceeds 4: 250 with a deviation of 16.
        assert!((200..300).contains(&over), "{over}");
    }

    #[test]
    fn wrong_items_are_named() {
        let wrong = [
            "cv=1",
            "cv",
            "cv=%",
            "drift=1%",
            "ramp=400:1x",
            "ramp=1s",
            "throttle=at:1s",
            "throttle=when:1s",
            "burst=by:2x",
            "negative",
            "seed=x",
            "wobble=1%",
            "at:1s",
            "scale=-1x",
            "scale=nanx",
            "scale=infx",
        ];
        for text in wrong {
            let error = text.parse::<ClockScript>().unwrap_err();
            assert!(error.to_string().contains("is no clock item"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_script_or_an_error(
            text in "((cv|drift|ramp|throttle|burst|heavy-tail|negative|seed|scale|p|by|at|for|len)[=:]?[0-9.eE\\-]{0,6}(%|x|ms|s|%/s)?[,; :]?){0,8}|\\PC{0,40}",
            t in any::<u64>(), ns in 0.0..1e18_f64,
        ) {
            if let Ok(script) = text.parse::<ClockScript>() {
                let mut clock = Clock::new(script);
                for _ in 0..4 {
                    prop_assert!(clock.show(t, ns).ns <= 1_000_000_000_000_000);
                }
            }
        }
    }
}
