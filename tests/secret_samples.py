"""Secrets as people leak them: made up at run time, so that no scanner takes a file for a leak.

A form is a text with ``«recipe length»`` where its secret stands: ``«alnum 36»``. Other words in it
are what commands, files and programs really print around one.
"""

from __future__ import annotations

import base64
import random
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass

_ALNUM = string.ascii_letters + string.digits
_LETTERS = {
    "alnum": _ALNUM,
    "hex": "0123456789abcdef",
    "digits": string.digits,
    "upper": string.ascii_uppercase + string.digits,
    "base32": string.ascii_uppercase + "234567",
    "base64": _ALNUM + "+/",
    "urlsafe": _ALNUM + "-_",
}
_RECIPE = re.compile(r"«(\w+) (\d+)»")


@dataclass(frozen=True, slots=True)
class Sample:
    """A text with secrets in it."""

    form: str
    text: str
    secrets: tuple[str, ...]


def make_sample(form: str, seed: int = 0) -> Sample:
    """The form with a value for each recipe."""
    chosen = random.Random(f"{form} {seed}")
    secrets: list[str] = []

    def fill(recipe: re.Match[str]) -> str:
        secrets.append(_make_value(recipe[1], int(recipe[2]), chosen))
        return secrets[-1]

    text = _RECIPE.sub(fill, form)
    return Sample(form, text, tuple(secrets))


def _make_value(recipe: str, length: int, chosen: random.Random) -> str:
    if recipe == "basic":
        words = "bob:" + _make_value("alnum", length, chosen)
        return base64.b64encode(words.encode()).decode()
    if recipe == "password":
        letters = chosen.choices(_ALNUM, k=length - 2)
        letters.insert(length // 2, chosen.choice("!*#%?^~"))
        return "".join(letters) + chosen.choice(string.digits)
    while True:
        value = "".join(chosen.choices(_LETTERS[recipe], k=length))
        # Generators of services do not promise both, but hardly ever fail to give them.
        is_mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
        if is_mixed or recipe == "digits":
            return value


def make_samples(seed: int = 0) -> Iterator[Sample]:
    """One of every form."""
    for form in FORMS:
        yield make_sample(form, seed)


_BEGIN, _END = "-----BEGIN", "-----END"  # apart, or a scanner of this file would stop here

FORMS = (
    # Tokens, on their own and in a sentence.
    "AKIA«base32 16»",
    "the key is ASIA«base32 16», use it",
    "aws_access_key_id = AKIA«base32 16»\naws_secret_access_key = «base64 40»",
    "[default]\naws_access_key_id=AKIA«base32 16»\naws_secret_access_key=«base64 40»\n",
    "AKIA«base32 16»:«base64 40»",
    "User name,Access key ID,Secret access key\nbob,AKIA«base32 16»,«base64 40»\n",
    '{"AccessKeyId": "ASIA«base32 16»", "SecretAccessKey": "«base64 40»"}',
    '"SessionToken": "«base64 300»"',
    "export AWS_SESSION_TOKEN=«base64 240»",
    "ghp_«alnum 36»",
    "gho_«alnum 36»",
    "ghu_«alnum 36»",
    "ghs_«alnum 36»",
    "ghr_«alnum 76»",
    "github_pat_«alnum 22»_«alnum 59»",
    "git clone https://ghp_«alnum 36»@github.com/o/r.git",
    "https://x-access-token:ghs_«alnum 36»@github.com/o/r",
    "  ✓ Logged in to github.com\n  - Token: gho_«alnum 36»",
    "gh auth login --with-token <<< ghp_«alnum 36»",
    "glpat-«urlsafe 20»",
    "gldt-«urlsafe 20»",
    "glrt-«urlsafe 20»",
    "glptt-«hex 40»",
    "glft-«urlsafe 20»",
    "glcbt-64_«urlsafe 20»",
    "glsoat-«urlsafe 20»",
    "GR1348941_token: glpat-«urlsafe 20»",
    "xoxb-«digits 12»-«digits 13»-«alnum 24»",
    "xoxp-«digits 12»-«digits 12»-«digits 13»-«hex 32»",
    "xapp-1-A«upper 10»-«digits 13»-«hex 64»",
    "xoxe.xoxp-1-«alnum 160»",
    "https://hooks.slack.com/services/T«upper 9»/B«upper 9»/«alnum 24»",
    "eyJ«urlsafe 33».eyJ«urlsafe 90».«urlsafe 43»",
    "Set-Cookie: jwt=eyJ«urlsafe 33».eyJ«urlsafe 90».«urlsafe 43»; HttpOnly",
    f"{_BEGIN} RSA PRIVATE KEY-----\n«base64 64»\n«base64 9»=\n{_END} RSA PRIVATE KEY-----",
    f"{_BEGIN} OPENSSH PRIVATE KEY-----\n«base64 70»\n{_END} OPENSSH PRIVATE KEY-----",
    f"{_BEGIN} PRIVATE KEY-----\\n«base64 64»\\n«base64 64»\\n{_END} PRIVATE KEY-----\\n",
    f"{_BEGIN} EC PRIVATE KEY-----\n«base64 64»\n«base64 64»\n[output cut off]",
    f"  key: |\n    {_BEGIN} PRIVATE KEY-----\n    «base64 64»\n    {_END} PRIVATE KEY-----",
    f"{_BEGIN} PGP PRIVATE KEY BLOCK-----\n\n«base64 64»\n{_END} PGP PRIVATE KEY BLOCK-----",
    "sk_live_«alnum 24»",
    "rk_live_«alnum 24»",
    "sk_test_«alnum 99»",
    "whsec_«alnum 32»",
    "gsk_«alnum 52»",
    "xai-«alnum 80»",
    "sk-«alnum 48»",
    "sk-proj-«urlsafe 48»T3BlbkFJ«urlsafe 48»",
    "sk-svcacct-«urlsafe 70»",
    "sk-ant-api03-«urlsafe 93»AA",
    "sk-ant-oat01-«urlsafe 93»AA",
    "sk-or-v1-«hex 64»",
    "AIza«urlsafe 35»",
    "ya29.a0«urlsafe 160»",
    "GOCSPX-«urlsafe 28»",
    "hvs.CAES«urlsafe 90»",
    "hvb.AAAA«urlsafe 130»",
    "Key                  Value\n---                  -----\ntoken                hvs.«alnum 24»",
    "npm_«alnum 36»",
    "//registry.npmjs.org/:_authToken=npm_«alnum 36»",
    "//npm.example.com/:_authToken=«hex 8»-«hex 4»-4«hex 3»-a«hex 3»-«hex 12»",
    "//npm.example.com/:_auth=«base64 28»",
    "pypi-AgEIcHlwaS5vcmc«urlsafe 150»",
    "[pypi]\nusername = __token__\npassword = pypi-AgEIcHlwaS5vcmc«urlsafe 150»",
    "hf_«alnum 34»",
    "r8_«alnum 37»",
    "pplx-«alnum 48»",
    "tvly-dev-«alnum 32»",
    "nvapi-«urlsafe 64»",
    "SG.«urlsafe 22».«urlsafe 43»",
    "dop_v1_«hex 64»",
    "dckr_pat_«urlsafe 27»",
    "lin_api_«alnum 40»",
    "ntn_«alnum 46»",
    "shpat_«hex 32»",
    "glsa_«alnum 32»_«hex 8»",
    "sntryu_«hex 64»",
    "figd_«urlsafe 43»",
    "PMAK-«hex 24»-«hex 34»",
    "NRAK-«upper 27»",
    "AGE-SECRET-KEY-1«upper 58»",
    "«digits 10»:AA«urlsafe 33»",
    "https://discord.com/api/webhooks/1058392017463/«urlsafe 68»",
    "root:$6$saltsalt$«alnum 86»:19000:0:99999:7:::",
    "bob:$2y$10$«alnum 53»",
    # Assignments, in the languages that people assign in.
    "OPENAI_KEY=«alnum 40»",
    "export STRIPE_API_KEY=«alnum 32»",
    "export DB_PASSWORD='«password 14»'",
    'export DB_PASSWORD="«password 14»"',
    "DB_PASSWORD=«password 14»",
    "DB_PASS=«password 12»",
    "MYSQL_PWD=«alnum 12»",
    "PGPASSWORD=«alnum 12» psql -h db",
    "REDIS_PASSWORD=«alnum 32»",
    "SECRET_KEY=«alnum 50»",
    "SECRET_KEY_BASE_TOKEN=«hex 128»",
    "DJANGO_SECRET_KEY='«password 50»'",
    "JWT_SECRET=«hex 64»",
    "SESSION_SECRET=«base64 44»",
    "GITHUB_TOKEN=«hex 40»",
    "VAULT_TOKEN=«alnum 26»",
    "SENTRY_AUTH_TOKEN=«hex 64»",
    "TWILIO_AUTH_TOKEN=«hex 32»",
    "CLOUDFLARE_API_TOKEN=«urlsafe 40»",
    "AZURE_CLIENT_SECRET=«urlsafe 34»",
    "ENCRYPTION_KEY=«base64 43»=",
    "DATADOG_API_KEY: «hex 32»",
    "db_password: «password 14»",
    "  password: '«password 14»'",
    '  password: "«password 14»"',
    "password: >-\n  «password 16»",
    "password: |\n  «password 16»",
    "token:\n  «alnum 40»",
    "apiVersion: v1\nkind: Secret\nstringData:\n  api-key: «alnum 32»",
    "env:\n  - name: API_TOKEN\n    value: «alnum 32»",
    "env:\n  - name: DB_PASSWORD\n    value: '«password 12»'",
    '{"password": "«password 14»"}',
    '{"api_key": "«alnum 32»", "user": "bob"}',
    '{"apiKey": "«alnum 32»"}',
    '{"client_secret":"«urlsafe 32»"}',
    '{\n  "clientSecret":\n    "«alnum 32»"\n}',
    '{"refresh_token": "«urlsafe 64»", "expires_in": 3600}',
    '{"access_token":"«alnum 60»","token_type":"bearer"}',
    '{\\"password\\": \\"«password 14»\\"}',
    '{\\\\\\"api_key\\\\\\": \\\\\\"«alnum 32»\\\\\\"}',
    '"env": ["API_TOKEN=«alnum 32»", "PATH=/usr/bin"]',
    '[{"name": "API_KEY", "value": "«alnum 32»"}]',
    'password = "«password 14»"',
    "password = '«password 14»'",
    'api_key = "«alnum 32»"  # mine',
    "[database]\nurl = 'x'\nsecret_key = \"«alnum 32»\"",
    'API_KEY: str = "«alnum 32»"',
    'API_KEY = (\n    "«alnum 20»"\n    "«alnum 20»"\n)',
    'os.environ["OPENAI_API_KEY"] = "«alnum 48»"',
    'client = Client(api_key="«alnum 32»", timeout=3)',
    "requests.get(url, auth=Token(token='«alnum 32»'))",
    'const apiKey = "«alnum 32»";',
    "const githubToken = '«alnum 40»';",
    'let secret: &str = "«alnum 32»";',
    "token := `«alnum 32»`",
    'private static final String PASSWORD = "«password 14»";',
    "spring.datasource.password=«password 14»",
    "$env:API_KEY = '«alnum 32»'",
    "set API_KEY=«alnum 32»",
    'setx API_KEY "«alnum 32»"',
    "set -gx API_TOKEN «alnum 32»",
    "ENV API_TOKEN «alnum 32»",
    "ARG NPM_TOKEN=«alnum 32»",
    "docker run -e API_TOKEN=«alnum 32» x",
    "export API_TOKEN=\\\n  «alnum 32»",
    "heroku config:set SECRET_TOKEN=«alnum 32»",
    "kubectl create secret generic x --from-literal=password=«password 14»",
    "<password>«password 14»</password>",
    '<add key="ApiKey" value="«alnum 32»"/>',
    '<setting name="DbPassword" value="«password 14»"/>',
    "Server=db;Database=x;User Id=bob;Password=«alnum 14»;",
    "Data Source=db;Uid=bob;Pwd=«password 14»;",
    "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=«base64 86»==;EndpointSuffix=y",
    "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=y;SharedAccessKey=«base64 43»=",
    "https://x.blob.core.windows.net/c?sv=2022-11-02&sp=r&sig=«alnum 43»%3D",
    "jdbc:mysql://db/x?user=bob&password=«alnum 14»",
    "https://api.example.com/v1?api_key=«alnum 32»&q=x",
    "https://api.example.com/v1?q=x&access_token=«alnum 40»",
    "https://maps.example.com/js?key=«alnum 39»&callback=x",
    # Addresses with a name and a password.
    "postgres://bob:«alnum 14»@db.example.com:5432/x",
    "postgresql+psycopg://bob:«alnum 14»@db/x",
    "mongodb+srv://bob:«alnum 14»@cluster0.mongodb.net",
    "redis://:«alnum 32»@cache:6379/0",
    "amqp://bob:«alnum 14»@mq:5672",
    "DATABASE_URL=mysql://root:«alnum 14»@db/x",
    "https://bob:«alnum 14»@git.example.com/r.git",
    "https://«hex 32»@o123.ingest.sentry.io/45",
    "ftp://bob:«alnum 8»%21@ftp.example.com",
    # Commands.
    "curl -u bob:«alnum 14» https://x.example",
    "curl -s -u 'bob:«password 14»' https://x.example",
    "curl --user bob:«alnum 14» https://x.example",
    'curl -H "Authorization: Bearer «alnum 40»" https://x.example',
    "curl -H 'authorization: bearer «alnum 40»' https://x.example",
    'curl -H "Authorization: Basic «basic 14»" https://x.example',
    'curl -H "Authorization: token «hex 40»" https://x.example',
    "curl -H 'X-Api-Key: «alnum 32»' https://x.example",
    "curl -H 'PRIVATE-TOKEN: «alnum 20»' https://x.example",
    "curl -H 'x-goog-api-key: «alnum 39»' https://x.example",
    "curl -b 'x' -H 'Cookie: session=«alnum 32»' https://x.example",
    '["curl", "-u", "bob:«alnum 14»", "https://x.example"]',
    "http -a bob:«alnum 14» https://x.example",
    "wget --password=«alnum 14» https://x.example",
    "mysql -u root -p«alnum 14» shop",
    "mysqldump -uroot -p'«password 14»' shop",
    "sshpass -p '«password 14»' ssh bob@x",
    "docker login -u bob -p «alnum 14» r.example.com",
    "redis-cli -h x -a «alnum 32» ping",
    "openssl rsa -in k.pem -passin pass:«alnum 14»",
    "gpg --batch --passphrase «alnum 14» -d x.gpg",
    "vault login --token «alnum 26»",
    "tool login --password '«password 14»'",
    "az login --service-principal -u x --client-secret «alnum 34»",
    "aws configure set aws_secret_access_key «base64 40»",
    "CREATE USER bob IDENTIFIED BY '«password 14»';",
    "ALTER ROLE bob WITH LOGIN PASSWORD '«alnum 14»';",
    # Files that hold nothing else.
    "machine api.example.com login bob password «alnum 14»",
    "machine api.example.com\n  login bob\n  password «alnum 14»",
    "db.example.com:5432:shop:bob:«alnum 14»",
    "*:*:*:bob:«password 14»",
    '{"auths": {"r.example.com": {"auth": "«basic 14»"}}}',
    "[Interface]\nPrivateKey = «base64 43»=\nAddress = 10.0.0.2/32",
    'network={\n  ssid="x"\n  psk="«alnum 14»"\n}',
    "users:\n- name: bob\n  user:\n    client-key-data: «base64 200»",
    "users:\n- name: bob\n  user:\n    token: «alnum 60»",
    'credentials "app.terraform.io" {\n  token = "«alnum 14».atlasv1.«alnum 60»"\n}',
    "ansible_become_pass: «password 14»",
    # Coloured, and spelled by encoders.
    "\x1b[32mAPI_TOKEN\x1b[0m=\x1b[33m«alnum 32»\x1b[0m",
    "\x1b[1;34mpassword\x1b[0m: \x1b[31m«password 14»\x1b[0m",
    "x = \x1b[01;31m\x1b[Kghp_\x1b[m\x1b[K«alnum 36»",
    "\x1b[35m.env\x1b[0m:\x1b[32m3\x1b[0m:API_TOKEN=«alnum 32»",
    "\\u001b[32mAPI_TOKEN\\u001b[0m=\\u001b[33m«alnum 32»\\u001b[0m",
    "API_TOKEN\\u003d«alnum 32»\\u0026x",
    "password=&quot;«alnum 14»&quot;",
    "output:\\nAPI_TOKEN=«alnum 32»\\nPATH=/usr/bin\\n",
    # What another list of forms brought to light.
    "glpat-«alnum 27».01.«alnum 9»",
    "pul-«hex 40»",
    "key-«hex 32»",
    "dapi«hex 32»",
    "secret_«alnum 43»",
    "ATATT3xFfGF0«urlsafe 180»=«hex 8»",
    "AKCp«alnum 69»",
    "cmVmdGtuO«alnum 55»",
    "1/«digits 16»:«hex 32»",
    "tskey-auth-«alnum 17»-«alnum 32»",
    "sgp_«hex 16»_«hex 40»",
    "fw_«alnum 24»",
    "jina_«hex 32»«urlsafe 28»",
    "phx_«alnum 43»",
    "EAACEdEose0cBA«alnum 100»",
    "eyJrIjoi«alnum 70»",
    "curl -sSu bob:«alnum 14» https://x.example",
    "define( 'NONCE_SALT',       '«alnum 64»' );",
    "define('AUTH_KEY', '«alnum 64»');",
    "define('DB_PASSWORD', '«password 12»');",
    "production:\n  secret_key_base: «hex 128»",
    'variable "token" {\n  description = "x"\n  type = string\n  default = "«alnum 32»"\n}',
    'provider "aws" {\n  secret_key = "«base64 40»"\n}',
    "terraform apply -var 'db_password=«alnum 14»'",
    "echo '«password 12»' | sudo -S apt update",
    "echo «alnum 14» | docker login -u bob --password-stdin",
    'echo "bob:«password 12»" | sudo chpasswd',
    "hibernate.connection.password «alnum 14»",
    '<property name="connection.password">«alnum 14»</property>',
    '<string name="api_key">«alnum 32»</string>',
    'let token = String::from("«alnum 40»");',
    'api_key = SecretStr("«alnum 40»")',
    '#define WIFI_PASSWORD "«alnum 12»"',
    '#define API_KEY  "«hex 32»"',
    '{"name":"DB_PASSWORD","type":"String","value":"«password 14»"}',
    '{"name":"API_KEY","value":"«alnum 24»"}',
    'gh secret set API_KEY --body "«alnum 32»"',
    'aws ssm put-parameter --name /x/y --value "«password 14»" --type SecureString',
    "nmcli dev wifi connect x password «alnum 14»",
    "openssl enc -aes-256-cbc -k «alnum 14» -in a",
    "smbclient //x/y -U bob%«alnum 12»",
    "rabbitmqctl add_user bob «alnum 14»",
    "htpasswd -b .htpasswd bob «alnum 12»",
    "redis-cli -h x AUTH «alnum 20»",
    "sqlplus bob/«alnum 12»@orcl",
    "CREATE LOGIN bob WITH PASSWORD = N'«password 14»';",
    "Password for bob: «alnum 12»",
    "DB_PW=«alnum 14»",
)
