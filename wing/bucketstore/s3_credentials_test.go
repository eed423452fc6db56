package bucketstore

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agenthost/internal/fake/fakebucket"
)

const role = "arn:aws:iam::123456789012:role/agenthost"

// clearAWS sets an environment without AWS credentials.
func clearAWS(t *testing.T) {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
}

// writeFile writes a file and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// cloud is S3 with the services that issue credentials.
func cloud(issuer *fakebucket.AWS) service {
	bucket := serve(&fakebucket.S3{Issuer: issuer})
	issue := serve(issuer)
	return func(r *http.Request) *http.Response {
		r.Host = r.URL.Host
		if strings.Contains(r.URL.Host, ".s3.") {
			return bucket(r)
		}
		return issue(r)
	}
}

// chains are the environments in which the SDK finds credentials.
func chains(t *testing.T, issuer *fakebucket.AWS) map[string]map[string]string {
	web, container := writeFile(t, issuer.WebToken), writeFile(t, issuer.ContainerToken)
	return map[string]map[string]string{
		"web identity": {"AWS_ROLE_ARN": issuer.Role, "AWS_WEB_IDENTITY_TOKEN_FILE": web},
		"web identity of a profile": {
			"AWS_PROFILE":     "prod",
			"AWS_CONFIG_FILE": writeFile(t, "[profile prod]\nregion = eu-west-1\nrole_arn = "+issuer.Role+"\nweb_identity_token_file = "+web+"\n"),
		},
		"container": {
			"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": container,
		},
		"instance": {},
	}
}

func newIssuer() *fakebucket.AWS {
	return &fakebucket.AWS{Role: role, WebToken: "hush-web", ContainerToken: "hush-container"}
}

func setenv(t *testing.T, vars map[string]string) {
	clearAWS(t)
	for name, v := range vars {
		t.Setenv(name, v)
	}
}

// Each source in the chain gives credentials that S3 accepts. Concurrent requests share them, and
// they are refreshed before they expire.
func TestS3CredentialsRefresh(t *testing.T) {
	for name, vars := range chains(t, newIssuer()) {
		t.Run(name, func(t *testing.T) {
			setenv(t, vars)
			synctest.Test(t, func(t *testing.T) {
				issuer := newIssuer()
				a := newStore(t, openS3Bucket(t, "s3://box", cloud(issuer)), &Options{})
				done := make(chan error)
				for range 8 {
					go func() {
						_, err := a.Save(t.Context(), alice, "a", textPart("x"))
						done <- err
					}()
				}
				for range 8 {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				diff(t, "issued at first", 1, issuer.Issued())
				time.Sleep(54 * time.Minute) // the bubble's time
				saveArtifact(t, a, alice, "a", textPart("x"))
				diff(t, "issued before the refresh", 1, issuer.Issued())
				time.Sleep(2 * time.Minute)
				saveArtifact(t, a, alice, "a", textPart("x"))
				diff(t, "issued before the first have expired", 2, issuer.Issued())
				time.Sleep(3 * time.Hour)
				saveArtifact(t, a, alice, "a", textPart("x"))
				diff(t, "issued after a pause", 3, issuer.Issued())
			})
		})
	}
}

// openS3Bucket opens a bucket with the process's environment.
func openS3Bucket(t *testing.T, url string, s service) *Artifacts {
	t.Helper()
	a, err := Open(t.Context(), url, &Options{HTTP: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A refresh that fails or hangs leaves the former credentials in use until they expire;
// then the error names the source.
func TestS3CredentialsOutage(t *testing.T) {
	for name, outage := range map[string]service{
		"error": func(*http.Request) *http.Response {
			return errorResponse(503, "<ErrorResponse><Error><Code>ServiceUnavailable</Code><Message>try later</Message></Error></ErrorResponse>", nil)
		},
		"no response": func(r *http.Request) *http.Response { <-r.Context().Done(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			setenv(t, chains(t, newIssuer())["web identity"])
			synctest.Test(t, func(t *testing.T) {
				services := cloud(newIssuer())
				var out atomic.Bool
				a := newStore(t, openS3Bucket(t, "s3://box", func(r *http.Request) *http.Response {
					if out.Load() && strings.HasPrefix(r.URL.Host, "sts.") {
						return outage(r)
					}
					return services(r)
				}), &Options{})
				out.Store(true)
				time.Sleep(56 * time.Minute)
				began := time.Now()
				saveArtifact(t, a, alice, "a", textPart("x"))
				if waited := time.Since(began); waited > credentialsTimeout {
					t.Errorf("waited %v", waited)
				}
				began = time.Now()
				saveArtifact(t, a, alice, "a", textPart("x"))
				diff(t, "wait of the next request", time.Duration(0), time.Since(began))
				time.Sleep(4 * time.Minute)
				_, err := a.Save(t.Context(), alice, "a", textPart("x"))
				if err == nil || !strings.Contains(err.Error(), "no credentials for S3 from the web identity token: ") {
					t.Errorf("Save with expired credentials = %v", err)
				}
				out.Store(false)
				time.Sleep(time.Minute)
				saveArtifact(t, a, alice, "a", textPart("x"))
			})
		})
	}
}

// An error names the source, the reason and the way out, and no key or token.
func TestS3CredentialsErrors(t *testing.T) {
	const webHint = "; hint: check AWS_ROLE_ARN, AWS_WEB_IDENTITY_TOKEN_FILE and that the role trusts this service account"
	const podHint = "; hint: check the service account's Pod Identity association, or the task role"
	const fileHint = "; hint: check the AWS_… variables, ~/.aws/config and ~/.aws/credentials"
	const noneHint = "; hint: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE for the host, or attach a role to its pod or instance"
	sources := chains(t, newIssuer())
	with := func(source, name, value string) map[string]string {
		vars := map[string]string{}
		for k, v := range sources[source] {
			vars[k] = v
		}
		vars[name] = value
		return vars
	}
	answer := func(status int, body string) service {
		return func(*http.Request) *http.Response { return errorResponse(status, body, nil) }
	}
	hang := func(r *http.Request) *http.Response { <-r.Context().Done(); return nil }
	for _, tt := range []struct {
		name  string
		vars  map[string]string
		serve service
		want  string
	}{
		{
			"denied role", with("web identity", "AWS_ROLE_ARN", role+"-other"), nil,
			"from the web identity token: AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity" + webHint,
		},
		{
			"expired web token", with("web identity", "AWS_WEB_IDENTITY_TOKEN_FILE", writeFile(t, "hush-old")), nil,
			"from the web identity token: ExpiredTokenException: Token expired: current date/time must be before the expiration date/time" + webHint,
		},
		{"missing token file", with("web identity", "AWS_WEB_IDENTITY_TOKEN_FILE", "/none/token"), nil, "from the web identity token: failed to retrieve jwt from provide source, unable to read file at /none/token: open /none/token: no such file or directory" + webHint},
		{"missing role", map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "/none/token"}, nil, "from the AWS configuration: role ARN is not set" + fileHint},
		{"slow STS", sources["web identity"], hang, "from the web identity token: no response within 5s" + webHint},
		{"garbage of STS", sources["web identity"], answer(200, "<html>hush"), "from the web identity token: invalid response: failed to decode response body, XML syntax error on line 1: unexpected EOF" + webHint},
		{"empty answer of STS", sources["web identity"], answer(200, "<x/>"), "from the web identity token: invalid response: failed to decode response body, AssumeRoleWithWebIdentityResult node not found" + webHint},
		{"wrong container token", with("container", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", writeFile(t, "hush-old")), nil, "from the container credentials endpoint: AccessDeniedException: Service account token is not valid" + podHint},
		{"garbage of the container endpoint", sources["container"], answer(200, `{"AccessKeyId": 7, "Token": "hush"}`), "from the container credentials endpoint: invalid response: failed to deserialize json response, json: cannot unmarshal number"},
		{"empty answer of the container endpoint", sources["container"], answer(200, `{}`), "from the container credentials endpoint: the response has no keys" + podHint},
		{"huge answer", sources["container"], answer(200, `{"AccessKeyId": "`+strings.Repeat("x", 2<<20)), "from the container credentials endpoint: invalid response: failed to deserialize json response, http: request body too large" + podHint},
		{"foreign container endpoint", map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://10.0.0.1/x"}, nil, `from the AWS configuration: invalid endpoint host, "10.0.0.1", only loopback/ecs/eks hosts are allowed` + fileHint},
		{"no metadata service", nil, hang, "from the environment, the AWS profile or instance metadata: no response within 5s" + noneHint},
		{"lost connections", nil, func(*http.Request) *http.Response { return nil }, "from the environment, the AWS profile or instance metadata: unexpected EOF" + noneHint},
		{"no role", nil, answer(404, ""), "from the environment, the AWS profile or instance metadata: http response error StatusCode: 404, request to EC2 IMDS failed" + noneHint},
		{"metadata disabled", map[string]string{"AWS_EC2_METADATA_DISABLED": "true"}, nil, `instance metadata: access disabled to EC2 IMDS via client option, or "AWS_EC2_METADATA_DISABLED" environment variable` + noneHint},
		{"unknown profile", map[string]string{"AWS_PROFILE": "prod"}, nil, "from the AWS configuration: failed to get shared config profile, prod" + fileHint},
	} {
		t.Run(tt.name, func(t *testing.T) {
			setenv(t, tt.vars)
			synctest.Test(t, func(t *testing.T) {
				services := tt.serve
				if services == nil {
					services = cloud(newIssuer())
				}
				began := time.Now()
				_, err := Open(t.Context(), "s3://box", &Options{HTTP: &http.Client{Transport: services}})
				if err == nil || !strings.HasPrefix(err.Error(), "no credentials for S3") || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") {
					t.Errorf("Open = %v, want %q", err, tt.want)
				}
				if waited := time.Since(began); waited > credentialsTimeout {
					t.Errorf("waited %v", waited)
				}
				time.Sleep(time.Minute) // requests in the background end
			})
		})
	}
}

// Without session tokens from the metadata service, the SDK falls back to IMDSv1, unless the
// environment disables it.
func TestS3CredentialsOfIMDSv1(t *testing.T) {
	for _, tt := range []struct {
		name, disabled string
		wantErr        bool
	}{
		{"fallback", "", false},
		{"disabled", "true", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			setenv(t, map[string]string{"AWS_EC2_METADATA_V1_DISABLED": tt.disabled})
			synctest.Test(t, func(t *testing.T) {
				first := service(func(r *http.Request) *http.Response {
					switch {
					case r.Method == http.MethodPut:
						return errorResponse(403, "", nil)
					case strings.HasSuffix(r.URL.Path, "/security-credentials/"):
						return errorResponse(200, "box-role", nil)
					}
					return errorResponse(200, `{"Code": "Success", "AccessKeyId": "id", "SecretAccessKey": "hush", "Token": "t", "Expiration": "2100-01-01T00:00:00Z"}`, nil)
				})
				_, err := Open(t.Context(), "s3://box", &Options{HTTP: &http.Client{Transport: first}})
				if (err != nil) != tt.wantErr {
					t.Errorf("Open = %v, want an error %v", err, tt.wantErr)
				}
				time.Sleep(time.Minute) // requests in the background end
			})
		})
	}
}

// Keys from the environment and from a profile need no request. A URL, the environment and the
// profile set the region, in this order.
func TestS3CredentialsOfFiles(t *testing.T) {
	keys := map[string]string{"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "hush"}
	files := map[string]string{
		"AWS_CONFIG_FILE":             writeFile(t, "[profile prod]\nregion = eu-west-1\n"),
		"AWS_SHARED_CREDENTIALS_FILE": writeFile(t, "[prod]\naws_access_key_id = AKIAPROD\naws_secret_access_key = hush\n"),
		"AWS_PROFILE":                 "prod",
	}
	add := func(vars map[string]string, name, value string) map[string]string {
		out := map[string]string{name: value}
		for k, v := range vars {
			out[k] = v
		}
		return out
	}
	for _, tt := range []struct {
		url      string
		vars     map[string]string
		id, host string
	}{
		{"s3://box", keys, "AKIAENV/", "box.s3.us-east-1.amazonaws.com"},
		{"s3://box", add(keys, "AWS_DEFAULT_REGION", "eu-north-1"), "AKIAENV/", "box.s3.eu-north-1.amazonaws.com"},
		{"s3://box", files, "AKIAPROD/", "box.s3.eu-west-1.amazonaws.com"},
		{"s3://box", add(files, "AWS_REGION", "eu-south-1"), "AKIAPROD/", "box.s3.eu-south-1.amazonaws.com"},
		{"s3://box?region=eu-central-1", add(files, "AWS_REGION", "eu-south-1"), "AKIAPROD/", "box.s3.eu-central-1.amazonaws.com"},
	} {
		setenv(t, tt.vars)
		bucket := serve(&fakebucket.S3{})
		a := newStore(t, openS3Bucket(t, tt.url, func(r *http.Request) *http.Response {
			diff(t, "host", tt.host, r.URL.Host)
			if !strings.Contains(r.Header.Get("Authorization"), "Credential="+tt.id) {
				t.Errorf("Authorization = %s, want %s", r.Header.Get("Authorization"), tt.id)
			}
			r.Host = r.URL.Host
			return bucket(r)
		}), &Options{})
		saveArtifact(t, a, alice, "a b+c/ü.txt", textPart("x"))
	}
}

// With Options.Lookup nothing comes from the process.
func TestS3CredentialsOfLookup(t *testing.T) {
	setenv(t, map[string]string{"AWS_ACCESS_KEY_ID": "AKIAPROCESS", "AWS_SECRET_ACCESS_KEY": "hush"})
	_, err := Open(t.Context(), "s3://box", &Options{Lookup: lookup(nil)})
	if err == nil || err.Error() != "no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for the host" {
		t.Errorf("Open = %v", err)
	}
}

// Names with special characters, metadata and lists are signed as S3 verifies them.
func TestS3SignatureVerified(t *testing.T) {
	issuer := newIssuer()
	setenv(t, chains(t, issuer)["web identity"])
	a := newStore(t, openS3Bucket(t, "s3://box/team a/prod?region=eu-central-1", cloud(issuer)), &Options{})
	for _, name := range []string{"a b+c.txt", "reports/ü %41&=?#.txt", "user:~me*(1)'!.png"} {
		saveArtifact(t, a, alice, name, textPart("x"))
		if part, err := a.Load(t.Context(), alice, name, -1); err != nil || part.Text != "x" {
			t.Errorf("Load(%q) = %v, %v", name, part, err)
		}
	}
	names, err := a.Keys(t.Context(), alice)
	if err != nil || len(names) != 3 {
		t.Errorf("Keys = %q, %v", names, err)
	}
	for header, want := range map[string]string{"X-Amz-Security-Token": "InvalidToken", "X-Amz-Date": "SignatureDoesNotMatch"} {
		services := cloud(issuer)
		b := newStore(t, openS3Bucket(t, "s3://box", func(r *http.Request) *http.Response {
			if r.Header.Get(header) != "" && strings.Contains(r.URL.Host, ".s3.") {
				r.Header.Set(header, "20130524T000000Z")
			}
			return services(r)
		}), &Options{})
		if _, err := b.Keys(t.Context(), alice); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Keys with another %s = %v", header, err)
		}
	}
}

// A caller who gives up does not wait for the credentials.
func TestS3CredentialsCancelled(t *testing.T) {
	setenv(t, chains(t, newIssuer())["web identity"])
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := Open(ctx, "s3://box", &Options{HTTP: &http.Client{Transport: service(func(r *http.Request) *http.Response {
			<-r.Context().Done()
			return nil
		})}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Open = %v", err)
		}
		time.Sleep(time.Minute)
	})
}
