{{- define "kafkaform.labels" -}}
app.kubernetes.io/name: kafkaform
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "kafkaform.image" -}}
{{- $repository := required "image.repository is required: where the image of kafkaform is" .Values.image.repository }}
{{- if .Values.image.digest }}{{ $repository }}@{{ .Values.image.digest }}
{{- else }}{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "kafkaform.container" -}}
image: {{ include "kafkaform.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources: {{- toYaml .job.resources | nindent 2 }}
volumeMounts:
  - {name: configuration, mountPath: /etc/kafkaform, readOnly: true}
  - {name: work, mountPath: /tmp}
  {{- with .root.Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* One CronJob. Arguments: root, name, job (its values), command (its container), clone (whether Git goes first). */}}
{{- define "kafkaform.cronjob" -}}
{{- $root := .root }}
{{- $url := required "repository.url is required: the Git repository of the manifests" $root.Values.repository.url }}
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {{ $root.Release.Name }}-{{ .name }}
  labels: {{- include "kafkaform.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  schedule: {{ .job.schedule | quote }}
  # Never two at once. If two run all the same, as of two releases, the lock of the Kafka cluster lets one apply.
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 300
  successfulJobsHistoryLimit: 3
  failedJobsHistoryLimit: 3
  jobTemplate:
    spec:
      # The next run tries again. A failed job is what monitoring raises: drift, or an apply that failed.
      backoffLimit: 0
      {{- with .job.activeDeadlineSeconds }}
      activeDeadlineSeconds: {{ . }}
      {{- end }}
      template:
        metadata:
          labels: {{- include "kafkaform.labels" $root | nindent 12 }}
            app.kubernetes.io/component: {{ .name }}
            {{- with $root.Values.podLabels }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          annotations:
            checksum/configuration: {{ include (print $root.Template.BasePath "/configmap.yaml") $root | sha256sum }}
            {{- with $root.Values.podAnnotations }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
        spec:
          restartPolicy: Never
          # kafkaform asks nothing of Kubernetes.
          automountServiceAccountToken: false
          # An apply that is ended waits for the answers of requests that are sent.
          terminationGracePeriodSeconds: 120
          securityContext:
            runAsNonRoot: true
            runAsUser: 65532
            runAsGroup: 65532
            fsGroup: 65532
            seccompProfile: {type: RuntimeDefault}
          {{- with $root.Values.imagePullSecrets }}
          imagePullSecrets: {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if .clone }}
          initContainers:
            - name: clone
              command: [git, clone, --quiet, --depth=1, --single-branch]
              args: [{{ printf "--branch=%s" $root.Values.repository.branch | quote }}, "--", {{ $url | quote }}, /tmp/repository]
              env:
                - {name: HOME, value: /tmp}
                {{- with $root.Values.env }}
                {{- toYaml . | nindent 16 }}
                {{- end }}
              {{- include "kafkaform.container" (dict "root" $root "job" .job) | nindent 14 }}
          {{- end }}
          containers:
            - name: {{ .name }}
              args: {{- toYaml .args | nindent 16 }}
              env:
                - {name: HOME, value: /tmp}
                - {name: KAFKAFORM_CONFIG, value: /etc/kafkaform/kafkaform.yaml}
                {{- with $root.Values.cluster }}
                - {name: KAFKAFORM_CLUSTER, value: {{ . | quote }}}
                {{- end }}
                {{- with $root.Values.env }}
                {{- toYaml . | nindent 16 }}
                {{- end }}
              envFrom:
                - secretRef:
                    name: {{ required (printf "%s.secretName is required: the Secret with the account" .name) .job.secretName | quote }}
              {{- include "kafkaform.container" (dict "root" $root "job" .job) | nindent 14 }}
          volumes:
            - {name: configuration, configMap: {name: {{ $root.Release.Name }}-configuration}}
            - {name: work, emptyDir: {}}
            {{- with $root.Values.extraVolumes }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with $root.Values.nodeSelector }}
          nodeSelector: {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $root.Values.tolerations }}
          tolerations: {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $root.Values.affinity }}
          affinity: {{- toYaml . | nindent 12 }}
          {{- end }}
{{- end }}
