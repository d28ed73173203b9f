{{- define "enginery.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "enginery.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "enginery.fullname" .) }}
{{- end }}

{{- define "enginery.image" -}}
{{- if .image.repository }}{{ printf "%s:%s" .image.repository (.image.tag | default .root.Chart.AppVersion) }}{{ end }}
{{- end }}

{{- define "enginery.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "enginery.labels" -}}
{{ include "enginery.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
