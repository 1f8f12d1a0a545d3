BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0005');
CREATE TABLE cascades (
	id INTEGER NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	structure VARCHAR(64) NOT NULL, 
	document TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (digest)
);
INSERT INTO "cascades" VALUES(1,'7cbed1e965104b8bad78203250e89910d8f561a7b1aa9b9ad1c8ba73bc6ba336','10a6d4ed56d943c0c15942c41a727984415ec2b9f7b7ea05baf903328b1b8074','5974f1eea86c52108836ff37e4d0c3548144774ff7fbfc914ecafea1805ff117','{"einsums":[{"accumulate":"float32","guards":[],"is_copy":false,"map":["*","%1","%0"],"name":"E0","operands":[{"indices":[{"constant":0,"terms":{"i2":1}},{"constant":0,"terms":{"i1":1}}],"tensor":"T0"},{"indices":[{"constant":0,"terms":{"i0":1}},{"constant":0,"terms":{"i2":1}}],"tensor":"T2"}],"output":{"indices":[{"constant":0,"terms":{"i0":1}},{"constant":0,"terms":{"i1":1}}],"tensor":"T1"},"populate":null,"reduce":"add","sizes":[["i0",7],["i1",48],["i2",32]]}],"outputs":["T1"],"tensors":{"T0":{"dtype":"float32","ranks":[],"shape":[32,48]},"T1":{"dtype":"float32","ranks":[],"shape":[7,48]},"T2":{"dtype":"float32","ranks":[],"shape":[7,32]}}}');
CREATE TABLE devices (
	id INTEGER NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	identity VARCHAR(512) NOT NULL, 
	family VARCHAR(255) NOT NULL, 
	document TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (digest)
);
INSERT INTO "devices" VALUES(1,'7d26751d9aaea446eefc5663e753187e86f6c46720ead9e55018e72e52a475ae','Portable Computing Language | pthread-test | 2 units | 3.0','Portable Computing Language | cpu','{"cache_bytes":1048576,"driver":"3.0","global_bytes":8589934592,"kind":"cpu","local_bytes":1048576,"name":"pthread-test","ordinal":0,"platform":"Portable Computing Language","units":2,"vendor":"us","version":"OpenCL 3.0 pocl"}');
CREATE TABLE forgotten (
	id INTEGER NOT NULL, 
	fact VARCHAR(32) NOT NULL, 
	date VARCHAR(40) NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (fact)
);
CREATE TABLE measurements (
	id INTEGER NOT NULL, 
	fact VARCHAR(32) NOT NULL, 
	cascade_id INTEGER NOT NULL, 
	device_id INTEGER NOT NULL, 
	schedule_id INTEGER NOT NULL, 
	provenance_id INTEGER NOT NULL, 
	sizes TEXT NOT NULL, 
	dtypes TEXT NOT NULL, 
	strides TEXT NOT NULL, 
	outcome VARCHAR(32) NOT NULL, 
	stage VARCHAR(32) NOT NULL, 
	message TEXT NOT NULL, 
	cold BOOLEAN NOT NULL, 
	median_ns DOUBLE, 
	samples_ns TEXT NOT NULL, 
	event_ns TEXT NOT NULL, 
	error DOUBLE, 
	tolerance DOUBLE, 
	date VARCHAR(40) NOT NULL, 
	document TEXT NOT NULL, mapping TEXT DEFAULT '' NOT NULL, applicable TEXT DEFAULT '' NOT NULL, origin TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (fact), 
	FOREIGN KEY(cascade_id) REFERENCES cascades (id), 
	FOREIGN KEY(device_id) REFERENCES devices (id), 
	FOREIGN KEY(schedule_id) REFERENCES schedules (id), 
	FOREIGN KEY(provenance_id) REFERENCES provenance (id)
);
INSERT INTO "measurements" VALUES(1,'d5b8feec29f64c369b67f64b4e59a620',1,1,1,1,'[7,48,32]','["float32","float32","float32"]','[[],[],[]]','ok','done','',1,1.00000000000000011373e+03,'[1000.0]','[999.0]',1.0e-07,1.0e-05,'2026-01-02T03:04:05+00:00','{"arguments":[{"by_value":false,"dtype":"float32","name":"T2","role":"input","shape":[7,32],"strides":[]},{"by_value":false,"dtype":"float32","name":"T0","role":"input","shape":[32,48],"strides":[]},{"by_value":false,"dtype":"float32","name":"T1","role":"output","shape":[7,48],"strides":[]}],"label":"Z\u00fcrich \u2028","runs_per_sample":1}','','{ [s0, s1, s2] : s0 >= 2 and s1 > 0 and s2 > 0 }','facts/one.jsonl');
CREATE TABLE predictions (
	id INTEGER NOT NULL, 
	measurement_id INTEGER NOT NULL, 
	predicted_latency DOUBLE NOT NULL, 
	predicted_energy DOUBLE NOT NULL, 
	document TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (measurement_id), 
	FOREIGN KEY(measurement_id) REFERENCES measurements (id)
);
CREATE TABLE provenance (
	id INTEGER NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	document TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (digest)
);
INSERT INTO "provenance" VALUES(1,'76d426c11f6621f07f85618c8da5b57a44e531852e4117b928446d0572f953ee','{"harness":1,"options":["-cl-mad-enable"],"source_hash":"abababababababababababababababababababababababababababababababab","threads":2,"versions":{"loopy":"2025.2"}}');
CREATE TABLE schedules (
	id INTEGER NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	document TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (digest)
);
INSERT INTO "schedules" VALUES(1,'beebfc97de46f2128362022bee71ced94ae3f1e97cf8b5a76387be01050ce73e','[{"order":["E0"],"step":"Explicate","version":1},{"loop":"E0.i0","step":"Split","tile":2,"version":1}]');
CREATE TABLE studies (
	study_id INTEGER NOT NULL, 
	study_name VARCHAR(512) NOT NULL, 
	PRIMARY KEY (study_id)
);
INSERT INTO "studies" VALUES(1,'4e02303456daa9021a8604bf860862f3a2deb071db362f5493f76e09ad0d61f4 on a device, a0c1960538d8');
CREATE TABLE study_directions (
	study_direction_id INTEGER NOT NULL, 
	direction VARCHAR(8) NOT NULL, 
	study_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	PRIMARY KEY (study_direction_id), 
	UNIQUE (study_id, objective), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_directions" VALUES(1,'MINIMIZE',1,0);
CREATE TABLE study_system_attributes (
	study_system_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_system_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
CREATE TABLE study_user_attributes (
	study_user_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_user_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
CREATE TABLE trial_heartbeats (
	trial_heartbeat_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	heartbeat DATETIME NOT NULL, 
	PRIMARY KEY (trial_heartbeat_id), 
	UNIQUE (trial_id), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_intermediate_values (
	trial_intermediate_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	intermediate_value FLOAT, 
	intermediate_value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_intermediate_value_id), 
	UNIQUE (trial_id, step), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_params (
	param_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	param_name VARCHAR(512), 
	param_value FLOAT, 
	distribution_json TEXT, 
	PRIMARY KEY (param_id), 
	UNIQUE (trial_id, param_name), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_params" VALUES(1,1,'transform',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["products.register_tiles", "products.transposed_operands"]}}');
INSERT INTO "trial_params" VALUES(2,1,'products.transposed_operands.down',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["6", "4", "8", "12"]}}');
INSERT INTO "trial_params" VALUES(3,1,'products.transposed_operands.vectors',3.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["2", "1", "3", "4"]}}');
INSERT INTO "trial_params" VALUES(4,1,'products.transposed_operands.block',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["64"]}}');
INSERT INTO "trial_params" VALUES(5,2,'transform',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["products.register_tiles", "products.transposed_operands"]}}');
INSERT INTO "trial_params" VALUES(6,2,'products.transposed_operands.down',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["6", "4", "8", "12"]}}');
INSERT INTO "trial_params" VALUES(7,2,'products.transposed_operands.vectors',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["2", "1", "3", "4"]}}');
INSERT INTO "trial_params" VALUES(8,2,'products.transposed_operands.block',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["64"]}}');
INSERT INTO "trial_params" VALUES(9,3,'transform',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["products.register_tiles", "products.transposed_operands"]}}');
INSERT INTO "trial_params" VALUES(10,3,'products.transposed_operands.down',3.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["6", "4", "8", "12"]}}');
INSERT INTO "trial_params" VALUES(11,3,'products.transposed_operands.vectors',3.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["2", "1", "3", "4"]}}');
INSERT INTO "trial_params" VALUES(12,3,'products.transposed_operands.block',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["64"]}}');
INSERT INTO "trial_params" VALUES(13,4,'transform',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["products.register_tiles", "products.transposed_operands"]}}');
INSERT INTO "trial_params" VALUES(14,4,'products.transposed_operands.down',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["6", "4", "8", "12"]}}');
INSERT INTO "trial_params" VALUES(15,4,'products.transposed_operands.vectors',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["2", "1", "3", "4"]}}');
INSERT INTO "trial_params" VALUES(16,4,'products.transposed_operands.block',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["64"]}}');
INSERT INTO "trial_params" VALUES(17,5,'transform',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["products.register_tiles", "products.transposed_operands"]}}');
INSERT INTO "trial_params" VALUES(18,5,'products.register_tiles.down',4.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["6", "1", "2", "3", "4", "8", "12"]}}');
INSERT INTO "trial_params" VALUES(19,5,'products.register_tiles.vectors',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["2", "1", "3", "4"]}}');
INSERT INTO "trial_params" VALUES(20,5,'products.register_tiles.block',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["64", "32"]}}');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_values (
	trial_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	value FLOAT, 
	value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_value_id), 
	UNIQUE (trial_id, objective), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_values" VALUES(1,4,0,2.0,'FINITE');
INSERT INTO "trial_values" VALUES(2,5,0,3.0,'FINITE');
CREATE TABLE trials (
	trial_id INTEGER NOT NULL, 
	number INTEGER, 
	study_id INTEGER, 
	state VARCHAR(8) NOT NULL, 
	datetime_start DATETIME, 
	datetime_complete DATETIME, 
	PRIMARY KEY (trial_id), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "trials" VALUES(1,0,1,'FAIL','2026-11-25 20:40:36.411213','2026-11-25 20:40:36.430734');
INSERT INTO "trials" VALUES(2,1,1,'FAIL','2026-11-25 20:40:36.434788','2026-11-25 20:40:36.481341');
INSERT INTO "trials" VALUES(3,2,1,'FAIL','2026-11-25 20:40:36.446626','2026-11-25 20:40:36.456263');
INSERT INTO "trials" VALUES(4,3,1,'COMPLETE','2026-11-25 20:40:36.459591','2026-11-25 20:40:36.484697');
INSERT INTO "trials" VALUES(5,4,1,'COMPLETE','2026-11-25 20:40:36.470924','2026-11-25 20:40:36.489395');
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
);
INSERT INTO "version_info" VALUES(1,12,'5.0.0');
CREATE INDEX ix_cascades_key ON cascades ("key");
CREATE INDEX ix_cascades_structure ON cascades (structure);
CREATE INDEX ix_devices_family ON devices (family);
CREATE INDEX ix_devices_identity ON devices (identity);
CREATE INDEX ix_measurements_of ON measurements (cascade_id, device_id, outcome);
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE INDEX ix_trials_study_id ON trials (study_id);
COMMIT;
