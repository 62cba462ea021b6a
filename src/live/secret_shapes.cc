#include "live/secret_shapes.h"

namespace tidemill {
namespace {

// A backslash and a letter before a secret is an escape of JSON, not a part of it.
#define TM_APART "(?:(?<![A-Za-z0-9_])|(?<=\\\\[nrtbf]))"
#define TM_QUOTE "\\\\?[\"']"
#define TM_SPACE "(?:\\s|\\\\[nrt])"
// Of a name and its value: between them, and what is no value but code or a place for one.
#define TM_NO_VALUE                                                                                \
  "(?!(?:None|null|nil|true|false|undefined|string|str|required|optional|password)(?![A-Za-z0-9])" \
  ")"                                                                                              \
  "(?![A-Za-z_]+(?:[.:][A-Za-z_]+)+(?![A-Za-z0-9]))"

constexpr SecretShape kShapes[] = {
    {"private-key",
     "-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[\\s\\S]{0,20000}?"
     "-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\\s\\\\:,.-]{0,20000})"},
    {"age-key", "AGE-SECRET-KEY-1[0-9A-Z]{50,}"},
    {"anthropic-key", "sk-ant-[A-Za-z0-9_-]{16,}"},
    {"api-key", TM_APART "sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}"},
    {"tidemill-key", "tmk-[0-9a-f]{32,}"},
    {"aws-key", "(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}(?![A-Z0-9])"},
    {"aws-secret",
     "(?i)aws_?(?:secret_?(?:access_?)?key|session_?token)[\"'\\\\\\s:=]{1,8}[A-Za-z0-9/+=]{40,}"},
    {"azure-key", "(?:AccountKey|SharedAccessKey)=[A-Za-z0-9+/]{40,}={0,2}"},
    {"azure-signature", "[?&]sig=[A-Za-z0-9%+/_-]{40,}={0,2}"},
    {"azure-secret", TM_APART "[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,}"},
    {"github-token", "gh[pousr]_[A-Za-z0-9]{36,}"},
    {"github-token", "github_pat_[A-Za-z0-9_]{40,}"},
    {"gitlab-token", "gl(?:pat|ptt|dt|rt|cbt|soat)-[A-Za-z0-9_-]{20,}"},
    {"slack-token", "xox[abeoprs]-[A-Za-z0-9-]{10,}"},
    {"slack-token", "xapp-[0-9]-[A-Za-z0-9-]{20,}"},
    {"slack-webhook", "hooks\\.slack\\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_+-]{20,}"},
    {"discord-webhook", "discord(?:app)?\\.com/api/webhooks/[0-9]{10,25}/[A-Za-z0-9_-]{40,}"},
    {"discord-token", TM_APART "[MNO][A-Za-z0-9_-]{23,27}\\.[A-Za-z0-9_-]{6}\\.[A-Za-z0-9_-]{27,}"},
    {"telegram-token", TM_APART "(?:bot)?[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"},
    {"twilio-key", TM_APART "(?:SK|AC)[0-9a-f]{32}(?![0-9a-zA-Z])"},
    {"google-key", "AIza[A-Za-z0-9_-]{35}"},
    {"google-token", "ya29\\.[A-Za-z0-9_-]{20,}"},
    {"google-token", TM_APART "1//0[A-Za-z0-9_-]{30,}"},
    {"google-secret", "GOCSPX-[A-Za-z0-9_-]{20,}"},
    {"stripe-key", TM_APART "[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"},
    {"webhook-secret", TM_APART "whsec_[A-Za-z0-9+/=_-]{20,}"},
    {"huggingface-token", TM_APART "hf_[A-Za-z0-9]{30,}"},
    {"npm-token", TM_APART "npm_[A-Za-z0-9]{36}"},
    {"pypi-token", "pypi-[A-Za-z0-9_-]{50,}"},
    {"sendgrid-key", "SG\\.[A-Za-z0-9_-]{16,}\\.[A-Za-z0-9_-]{16,}"},
    {"mailgun-key", TM_APART "key-[0-9a-f]{32}(?![0-9a-zA-Z])"},
    {"vault-token", TM_APART "hv[sbr]\\.[A-Za-z0-9_-]{24,}"},
    {"databricks-token", TM_APART "dapi[0-9a-f]{32}(?:-[0-9])?(?![0-9a-zA-Z])"},
    {"vendor-key", TM_APART
     "(?:gsk_|xai-|nvapi-|r8_|pplx-|dop_v1_|shp(?:at|ca|pa|ss)_|ATATT3|glsa_|lin_api_|NRAK-|PMAK-|"
     "sntrys_|sbp_|figd_|rubygems_|tskey-|sgp_)[A-Za-z0-9_=.-]{24,}"},
    {"jwt", "eyJ[A-Za-z0-9_-]{10,}\\.eyJ[A-Za-z0-9_-]{10,}\\.[A-Za-z0-9_-]*"},
    {"bearer-token", "(?i)" TM_APART "bearer[ \\t]{1,4}[A-Za-z0-9._~+/=-]{20,}"},
    {"basic-auth", "(?i)authorization[\"'\\\\\\s:=]{1,8}basic[ \\t]{1,4}[A-Za-z0-9+/_-]{4,}={0,2}"},
    {"basic-auth", TM_APART
     "[Bb]asic[ \\t]{1,4}(?=[A-Za-z0-9+/]*[0-9=])(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])"
     "[A-Za-z0-9+/]{12,}={0,2}"},
    {"docker-auth",
     "\"(?:auth|identitytoken)\\\\?\"\\s{0,8}:\\s{0,8}\\\\?\"(?=[A-Za-z0-9+/._-]*[0-9=])"
     "[A-Za-z0-9+/._-]{12,}={0,2}"},
    {"bearer-token",
     "(?i)authorization[\"'\\\\\\s:=]{1,8}(?:token|apikey|api-key|key)[ \\t=]{1,4}"
     "[A-Za-z0-9._~+/=-]{16,}"},
    {"api-key-header",
     "(?i)(?:x-(?:[a-z]{1,20}-)?(?:api-key|auth-token|access-token)|private-token|"
     "subscription-key)" TM_QUOTE "?[\\s:=]{1,4}(?:" TM_QUOTE ")?(?=[A-Za-z0-9._~+/-]*[0-9])"
     "[A-Za-z0-9._~+/=-]{8,}"},
    {"cookie",
     "(?i)cookie(?:" TM_QUOTE ")?\\s{0,4}:\\s{0,4}(?:" TM_QUOTE ")?"
     "(?=[^\\r\\n\"']{1,4000}?=[^\\s;\"'\\\\=]{8})[A-Za-z0-9_.-]{1,64}=[^\\r\\n\"'\\\\]{1,4096}"},
    {"cookie",
     "curl[ \\t][^\\r\\n]{0,400}?(?<=[\\s\"'])(?:-b|--cookie)[\\s=]{1,4}(?:" TM_QUOTE ")?\\K"
     "[A-Za-z0-9_.-]{1,64}=[^\\s;\"'\\\\=]{8,4096}"},
    {"netrc",
     "(?i)(?:machine" TM_SPACE "{1,8}[^\\s\\\\]{1,253}|default)" TM_SPACE "{1,8}login" TM_SPACE
     "{1,8}[^\\s\\\\]{1,200}" TM_SPACE "{1,8}password" TM_SPACE "{1,8}[^\\s\"'\\\\]{3,200}"},
    {"curl-user",
     "curl[ \\t][^\\r\\n]{0,400}?(?<=[\\s\"'])"
     "(?:-u[\\s=]{0,4}|(?:--user|--proxy-user)(?:[\\s=]{1,4}|(?=[\"'])))"
     "(?:" TM_QUOTE ")?\\K[^\\s:\"'\\\\$]{1,100}:[^\\s\"'\\\\$]{3,200}"},
    {"command-password",
     "(?:(?:mysql|mysqldump|mysqladmin|mariadb)[ \\t][^\\r\\n]{0,200}?(?<=\\s)-p(?=\\S)|sshpass[ "
     "\\t]{1,4}"
     "-p[ \\t]{0,4}|docker[ \\t]login[ \\t][^\\r\\n]{0,200}?(?<=\\s)-p[ \\t=]{1,4})"
     "(?:" TM_QUOTE ")?\\K[^\\s\"'\\\\$]{3,200}"},
    {"option-password",
     "(?<=\\s)--(?:password|passwd|passphrase|token|api-key|secret)(?:=|[ \\t]{1,4})(?:" TM_QUOTE
     ")?\\K(?=[^\\s\"'\\\\$<>{}]{0,200}[0-9])[^\\s\"'\\\\$<>{}/]{6,200}"},
    {"npm-token",
     "//[^\\s\"']{1,200}:_(?:authToken|auth|password)[ ]?=[ ]?\\K[^\\s\"'\\\\${}]{8,200}"},
    {"pgpass",
     "(?m)^[^\\s:]{1,253}:(?:54[0-9]{2}|\\*):[^\\s:]{1,63}:[^\\s:]{1,63}:\\K[^\\s:]{4,200}"},
    {"url-password", "://[^\\s/:@\"']{0,100}:[^\\s/@\"'$<>{}]{3,200}@"},
    {"jdbc-password", "jdbc:oracle:[a-z]{1,10}:[^\\s/@:\"']{1,100}/[^\\s@\"'$<>{}]{3,200}@"},
    {"query-password",
     "(?i)[?&;](?:password|passwd|pwd|access_?token|api_?key|client_?secret|secret)=" TM_NO_VALUE
     "[^\\s&;\"'\\\\<>${}()]{3,400}"},
    {"password",
     "(?:PASSWORD|PASSWD|PASSPHRASE|_PWD|SECRET|SECRET_KEY|API_?KEY|AUTH_TOKEN|ACCESS_TOKEN|"
     "ACCOUNT_KEY)[ ]?=[ ]?(?:" TM_QUOTE ")?" TM_NO_VALUE
     "(?>[^\\s\"'\\\\;&|$<>(){}\\[\\],`=]{4,200})(?![(\\[{=])"},
    {"password",
     "(?:PASSWORD|PASSWD|PASSPHRASE|_PWD|SECRET|SECRET_KEY|API_?KEY|_TOKEN):[ ]{1,4}(?:" TM_QUOTE
     ")?" TM_NO_VALUE "(?=[^\\s\"'\\\\$<>{}]{0,200}[0-9])[^\\s\"'\\\\$<>{}]{6,200}"},
    {"password", "(?i)" TM_APART "(?:client_secret|access_token|refresh_token|id_token|api_?key)"
                 "=" TM_NO_VALUE "(?=[^\\s&;\"'\\\\<>${}()\\[\\]]{0,400}[0-9])"
                 "[^\\s&;\"'\\\\<>${}()\\[\\]]{12,400}"},
    {"password",
     "(?i)(?:password|passwd|passphrase|secret|secret[_-]?key|api[_-]?key|access[_-]?token|"
     "auth[_-]?token)(?:" TM_QUOTE ")?\\s{0,2}(?::|=>?)\\s{0,2}" TM_QUOTE
     "(?=[^\"'\\s]{0,200}[0-9])[^\"'\\s\\\\$<>{}]{6,200}(?=" TM_QUOTE ")"},
};

}  // namespace

std::span<const SecretShape> SecretShapes() {
  return kShapes;
}

}  // namespace tidemill
