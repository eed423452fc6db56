{{- define "agenthost.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "agenthost.selector" -}}
app.kubernetes.io/name: agenthost
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "agenthost.labels" -}}
{{ include "agenthost.selector" . }}
app.kubernetes.io/version: {{ default .Chart.AppVersion .Values.image.tag | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{- define "agenthost.secret" -}}
{{- if .Values.secret }}{{ include "agenthost.name" . }}{{ else }}{{ .Values.existingSecret }}{{ end -}}
{{- end -}}

{{- /* A file's key in a ConfigMap, which has no folders. */ -}}
{{- define "agenthost.fileKey" -}}
{{- replace "/" "..." . -}}
{{- end -}}

{{- define "agenthost.hostFile" -}}
{{- $own := dict "dirs" (list "/apps") "drain" (printf "%ds" (int .Values.drainSeconds)) "policy" "/etc/agenthost/policy.yaml" -}}
{{- merge $own .Values.config | toYaml -}}
{{- end -}}

{{- /* What the schema cannot check. */ -}}
{{- define "agenthost.check" -}}
{{- $v := .Values -}}
{{- $most := $v.replicas -}}
{{- $least := $v.replicas -}}
{{- if $v.autoscaling.enabled }}{{ $most = $v.autoscaling.max }}{{ $least = $v.autoscaling.min }}{{ end -}}
{{- if not (or $v.apps $v.appVolumes) -}}
{{- fail "apps and appVolumes are empty: set apps.NAME to the app's files, or appVolumes.NAME to a volume with its folder" -}}
{{- end -}}
{{- range $name, $files := $v.apps -}}
{{- if hasKey $v.appVolumes $name }}{{ fail (printf "app %s is in apps and in appVolumes: remove one" $name) }}{{ end -}}
{{- if not (or (hasKey $files "app.yaml") (hasKey $files "root_agent.yaml")) -}}
{{- fail (printf "apps.%s has neither app.yaml nor root_agent.yaml" $name) -}}
{{- end -}}
{{- end -}}
{{- if and (not $v.secret) (not $v.existingSecret) -}}
{{- fail "existingSecret is empty: name the Secret with AGENTHOST_SESSION_DB and the tokens (deploy/kubernetes/secret.example.yaml)" -}}
{{- end -}}
{{- if $v.secret -}}
{{- $url := get $v.secret "AGENTHOST_SESSION_DB" -}}
{{- if not (regexMatch "^(postgres|postgresql|mysql|mariadb)://" $url) -}}
{{- fail "secret.AGENTHOST_SESSION_DB must be the URL of a database on a server, such as postgres://USER:PASSWORD@HOST/DB: a pod's own files are lost with it, and replicas share their sessions" -}}
{{- end -}}
{{- end -}}
{{- if and $v.autoscaling.enabled (gt (int $v.autoscaling.min) (int $v.autoscaling.max)) -}}
{{- fail (printf "autoscaling.min is %d, above autoscaling.max, %d" (int $v.autoscaling.min) (int $v.autoscaling.max)) -}}
{{- end -}}
{{- if and (gt (int $v.minAvailable) 0) (gt (int $least) 0) (ge (int $v.minAvailable) (int $least)) -}}
{{- fail (printf "minAvailable is %d with %d replicas: no node could be drained; set it to at most %d" (int $v.minAvailable) (int $least) (sub (int $least) 1)) -}}
{{- end -}}
{{- if and $v.ingress.enabled (not $v.ingress.host) }}{{ fail "ingress.host is empty: name the host of the ingress" }}{{ end -}}
{{- end -}}
